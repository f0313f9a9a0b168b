// Package runshell has the tool run_shell_command, for platforms that speak it
// and not exec: with the parameters of Qwen Code ([pathenv.ProfileQwen]) or of
// asimi ([pathenv.ProfileAsimi]), and one implementation of both, on any
// executor.
//
//   - [New] makes a [Tool]. [Tool.Run] runs a command for Go callers;
//     [Tool.Call] and [Tool.Definitions] are for what serves tools, such as
//     package tool/mcp.
//   - [RunShellCommand] is it for langchaingo, whose interface tools.Tool it
//     satisfies.
//   - [Tool.Check] says what the restrictions (coreTools, excludeTools) make of
//     a command.
//
// A command is bash -c and its text, as it is given: nothing is put around it.
// Each is on its own: a cd or a variable is gone with the command that set it.
// What it leaves running goes on, and is in [Output].BackgroundPIDs.
//
// The restrictions keep a well-meaning agent to what is agreed. They are no
// boundary for code that is not trusted: that is what a sandbox is for.
package runshell
