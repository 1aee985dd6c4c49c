//! Workloads and tables behind `dio bench`.
