package runshell

// WindowsCommandLine is the command line with which cmd.exe runs a command's text
// unchanged, for syscall.SysProcAttr.CmdLine.
//
// cmd.exe does not parse its arguments like other programs: everything behind /c is
// the text, including quotes. The quoting of os/exec, which puts a backslash before
// each quote, would become part of the command. With /s, cmd.exe removes only the
// first and the last quote, which this function adds. With /d, it does not run
// commands from the registry first. cmd.exe ignores everything behind the first line
// feed of the text.
func WindowsCommandLine(command string) string {
	return `cmd.exe /d /s /c "` + command + `"`
}
