//! Entry point of the `dio` command.

fn main() -> std::process::ExitCode {
    dio_cli::cli::run(std::env::args_os())
}
