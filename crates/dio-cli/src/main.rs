//! Entry point of the `dio` command.

// The only unsafe code of the program: it registers a function of dio-sys that runs before `main`.
#[allow(unsafe_code)]
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_START: extern "C" fn() = dio_sys::start::note;

fn main() -> std::process::ExitCode {
    let status = dio_cli::cli::run(std::env::args_os());
    dio_common::lock_waits::report_at_exit();
    status
}
