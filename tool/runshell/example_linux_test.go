package runshell_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/tool/runshell"
)

// Commands on this machine, in a project.
func Example() {
	project, err := os.MkdirTemp("", "corral-example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(project)
	host, err := hostexec.New(hostexec.Config{
		InProcess: true, StateDir: filepath.Join(project, ".state"), Workspace: project, Environ: []string{"PATH=/usr/bin:/bin"},
	})
	if err != nil {
		panic(err)
	}
	defer func() {
		if err := host.Close(); err != nil {
			panic(err)
		}
	}()

	run, err := runshell.New(runshell.Config{
		Executor: host, Profile: pathenv.ProfileQwen, Root: project,
		CoreTools: []string{"run_shell_command(echo)", "run_shell_command(ls)"},
	})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	out, err := run.Run(ctx, runshell.Input{Command: "echo hello && ls nowhere 2>/dev/null", Description: "Say hello"})
	if err != nil {
		panic(err)
	}
	fmt.Println(out.Text())
	_, err = run.Run(ctx, runshell.Input{Command: "echo hello; rm -rf /"})
	fmt.Println(err)
	// Output:
	// Command: echo hello && ls nowhere 2>/dev/null
	// Directory: (root)
	// Stdout: hello
	//
	// Stderr: (empty)
	// Error: (none)
	// Exit Code: 2
	// Signal: (none)
	// Background PIDs: (none)
	// Command(s) not in the allowed commands list. Disallowed commands: "rm -rf /"
}
