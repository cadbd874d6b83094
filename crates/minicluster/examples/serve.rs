#![allow(clippy::unwrap_used)]
//! A server for trying things out.
use std::path::PathBuf;
#[tokio::main]
async fn main() {
    let dir = PathBuf::from(std::env::args().nth(1).unwrap());
    let server = berth_minicluster::ApiServer::start(berth_minicluster::ServerOptions {
        kubeconfig: Some(dir.join("kubeconfig")),
        ..Default::default()
    })
    .await
    .unwrap();
    println!("{}", server.url());
    tokio::signal::ctrl_c().await.unwrap();
}
