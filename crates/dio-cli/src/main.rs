//! Entry point of the `dio` command.

fn main() -> std::process::ExitCode {
    let status = dio_cli::cli::run(std::env::args_os());
    dio_bench::locks::library::tell();
    status
}
