//! A server of the Model Context Protocol on standard input and output. Each call of a tool runs a command of this program, in a process of its
//! own: it reads the cluster again, has the limits of a command, and ends with its call.

mod tools;

use std::ffi::OsString;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer, ServiceExt};
use rmcp::{ErrorData, transport};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use tools::{Answer, Call, TOOLS};

/// The limits of the console: for a page, and for a text that is sent.
const MAX_TIME: Duration = Duration::from_secs(60);
const MAX_BYTES: u64 = 1 << 20;
/// Commands at one time; further calls wait.
const MAX_CALLS: usize = 2;
/// The exit code of invalid input.
const INVALID: i32 = 2;

const INSTRUCTIONS: &str = "\
Berth answers where Kubernetes places pods, with the decisions of kube-scheduler, and verifies each repair and change that it names. It reads one \
cluster, and changes nothing. Ask `explain` without a pod for all pending pods by cause, and with one for the rules that exclude nodes and what \
helps; `what_if` before a change; `capacity` for replicas and nodes; `lint` for mistakes in manifests; `rebalance` for moves of running pods; `audit` \
for broken rules.";

/// Serves until the client closes standard input. `words` are those of the command line, in which `mcp` is the command.
pub async fn serve(words: Vec<OsString>) -> io::Result<()> {
    let server = Server { program: std::env::current_exe()?, words, calls: Semaphore::new(MAX_CALLS) };
    let running = server.serve(transport::io::stdio_pipes()).await.map_err(io::Error::other)?;
    running.waiting().await.map_err(io::Error::other)?;
    Ok(())
}

struct Server {
    program: std::path::PathBuf,
    words: Vec<OsString>,
    calls: Semaphore,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("berth", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = |tool: &tools::Definition| {
            let annotations = ToolAnnotations::new().read_only(true).idempotent(true);
            Tool::new(tool.name, tool.description, (tool.schema)()).with_annotations(annotations)
        };
        Ok(ListToolsResult::with_all_items(TOOLS.iter().map(tool).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = TOOLS.iter().find(|tool| tool.name == request.name).ok_or_else(|| {
            ErrorData::invalid_params(
                format!("there is no tool {}: tools/list names them", request.name),
                None,
            )
        })?;
        let call = match (tool.call)(request.arguments.unwrap_or_default()) {
            Ok(call) => call,
            Err(error) => return Ok(failure(error).into()),
        };
        let result = tokio::select! {
            result = self.run(call) => result,
            () = context.ct.cancelled() => failure("cancelled".to_owned()),
        };
        Ok(result.into())
    }
}

impl Server {
    async fn run(&self, call: Call) -> CallToolResult {
        let answer = call.answer;
        match timeout(MAX_TIME, self.output(call)).await {
            Ok(Ok(text)) => result(answer, text),
            Ok(Err(error)) => failure(error),
            Err(_) => failure(format!(
                "not answered within {} s: ask for less, such as one namespace",
                MAX_TIME.as_secs()
            )),
        }
    }

    /// What the command prints, or its error.
    async fn output(&self, call: Call) -> Result<String, String> {
        let manifests = call.manifests.unwrap_or_default();
        if manifests.len() as u64 > MAX_BYTES {
            return Err(format!("manifests: {} bytes: at most {MAX_BYTES} are read", manifests.len()));
        }
        let _turn = self.calls.acquire().await.map_err(|e| e.to_string())?;
        let words =
            self.words.iter().map(|word| if word == "mcp" { call.command.into() } else { word.clone() });
        let mut command = Command::new(&self.program);
        command.args(words).args(&call.words).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| e.to_string())?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let write = async {
            if let Some(mut stdin) = stdin {
                // A command that does not read them says why.
                let _ = stdin.write_all(manifests.as_bytes()).await;
            }
        };
        let ((), printed, said, status) = tokio::join!(write, text_of(stdout), text_of(stderr), child.wait());
        match status.map_err(|e| e.to_string())?.code() {
            Some(INVALID) | None => Err(said?),
            Some(_) => printed,
        }
    }
}

async fn text_of(stream: Option<impl tokio::io::AsyncRead + Unpin>) -> Result<String, String> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.take(MAX_BYTES + 1).read_to_end(&mut bytes).await.map_err(|e| e.to_string())?;
    }
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!(
            "the answer has more than {MAX_BYTES} bytes: ask for less, such as one namespace"
        ));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn result(answer: Answer, text: String) -> CallToolResult {
    match answer {
        Answer::Report => CallToolResult::success(vec![ContentBlock::text(text)]),
        Answer::Json => match serde_json::from_str(&text) {
            Ok(value) => CallToolResult::structured(value),
            Err(error) => failure(error.to_string()),
        },
    }
}

fn failure(text: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text.trim().to_owned())])
}

/// The arguments of a tool, read strictly.
fn read<T: serde::de::DeserializeOwned>(arguments: JsonObject) -> Result<T, String> {
    serde_json::from_value(serde_json::Value::Object(arguments)).map_err(|e| format!("arguments: {e}"))
}
