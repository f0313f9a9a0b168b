// Package runshell has the tool run_shell_command, for platforms that use it in
// place of exec. It has the parameters of Qwen Code ([pathenv.ProfileQwen]) or of
// asimi ([pathenv.ProfileAsimi]), with one implementation for both, on any executor.
//
//   - [New] makes a [Tool]. [Tool.Run] runs a command for Go callers;
//     [Tool.Call] and [Tool.Definitions] are for servers of tools, such as
//     package tool/mcp.
//   - [RunShellCommand] is the tool for langchaingo: it implements tools.Tool.
//   - [Tool.Check] decides on a command by the restrictions (coreTools,
//     excludeTools).
//
// A command runs as bash -c with its text, unchanged. A cd or a variable has no
// effect on the next command. Processes that a command leaves running go on, and are
// in [Output].BackgroundPIDs.
//
// The restrictions guide a well-meaning agent. They are no boundary for code that is
// not trusted; a sandbox is.
package runshell
