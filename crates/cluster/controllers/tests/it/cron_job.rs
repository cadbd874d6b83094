//! CronJobs.

use serde_json::{Value, json};

use super::world::*;

const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

#[tokio::test(start_paused = true)]
async fn a_cron_job_runs_keeps_its_history_and_takes_its_jobs_along() {
    let world = World::new(1).await;
    let path = format!("{CRON_JOBS}/c");
    let mut pods = template("c", "succeed");
    pods["spec"]["restartPolicy"] = "Never".into();
    let spec = json!({"schedule": "0 0 1 1 *", "timeZone": "Europe/Berlin", "successfulJobsHistoryLimit": 1,
        "jobTemplate": {"spec": {"template": pods}}});
    world
        .create(
            CRON_JOBS,
            &json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": spec}),
        )
        .await;
    // Its time has come in two years before this one.
    for (year, n_kept) in [("2019", 1), ("2020", 1)] {
        let long_ago = format!("{year}-06-01T00:00:00Z");
        world.patch(&format!("{path}/status"), json!({"status": {"lastScheduleTime": long_ago}})).await;
        let runs = |cron_job: &Value| cron_job["status"]["lastScheduleTime"] != long_ago.as_str();
        let done = world
            .until("done", &path, |c| runs(c) && c["status"]["active"].as_array().is_none_or(Vec::is_empty))
            .await;
        assert!(done["status"]["lastSuccessfulTime"].is_string(), "{done}");
        world.until_listed("the history is kept", JOBS, |jobs| jobs.len() == n_kept).await;
        let name =
            world.until_listed("one", JOBS, |jobs| jobs.len() == 1).await[0]["metadata"]["name"].clone();
        world
            .delete_with(
                &format!("{JOBS}/{}", name.as_str().unwrap()),
                json!({"propagationPolicy": "Background"}),
            )
            .await;
    }
    world
        .patch(&format!("{path}/status"), json!({"status": {"lastScheduleTime": "2019-06-01T00:00:00Z"}}))
        .await;
    world.until_listed("another", JOBS, |jobs| jobs.len() == 1).await;
    world.delete_with(&path, json!({"propagationPolicy": "Foreground"})).await;
    world.until_gone(&path).await;
    world.until_listed("its jobs are collected", JOBS, |jobs| jobs.is_empty()).await;
    world.end().await;
}
