//! Entry point of `dio-mpi`.

fn main() -> std::process::ExitCode {
    dio_mpi::commands::run(std::env::args_os().skip(1).collect())
}
