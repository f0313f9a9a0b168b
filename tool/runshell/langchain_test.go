package runshell_test

import (
	"errors"
	"testing"

	"github.com/tmc/langchaingo/tools"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/tool/runshell"
)

var _ tools.Tool = runshell.RunShellCommand{}

// asimi: "The `run_shell_command` tool is implemented as a `langchaingo.Tool` in
// Go." This is the tool as an agent of langchaingo sees it.
func TestLangchain(t *testing.T) {
	ex := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"bash -c fail": func(*fakeexec.IO) int { return 3 }}}
	defer ex.Close()
	run, err := runshell.New(runshell.Config{Executor: ex, Profile: pathenv.ProfileAsimi, Dir: "/project", ExcludeTools: []string{"run_shell_command(rm)"}})
	if err != nil {
		t.Fatal(err)
	}
	var tool tools.Tool = runshell.RunShellCommand{Tool: run}
	if tool.Name() != "run_shell_command" || tool.Description() != runshell.Description {
		t.Errorf("%s: %s", tool.Name(), tool.Description())
	}
	const failed = `{"stdout":"","stderr":"","exitCode":3,"signal":null,"error":null,"pid":1,"backgroundPids":[]}`
	if out, err := tool.Call(t.Context(), `{"command": "fail"}`); err != nil || out != failed {
		t.Errorf("%s, %v", out, err)
	}
	for input, kind := range map[string]error{`{"command": "rm x"}`: corral.ErrDenied, `{"command": ""}`: corral.ErrInvalid, `{`: corral.ErrInvalid} {
		if out, err := tool.Call(t.Context(), input); !errors.Is(err, kind) || out != "" {
			t.Errorf("%s: %s, %v", input, out, err)
		}
	}
}
