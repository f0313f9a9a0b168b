package runshell

// WindowsCommandLine is the command line by which cmd.exe runs a command's text
// as it is, for syscall.SysProcAttr.CmdLine.
//
// cmd.exe does not take its arguments apart as other programs do: what follows
// /c is the text, quotes and all. So the quoting of os/exec, which puts a
// backslash before each quote, would become part of the command. With /s it
// removes the first quote and the last, which are put around the text here, and
// nothing else. With /d it runs no commands from the registry first. The text
// ends at its first line feed, as all that cmd.exe is given there.
func WindowsCommandLine(command string) string {
	return `cmd.exe /d /s /c "` + command + `"`
}
