package runshell

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/fakeexec"
)

func checkResult(t *testing.T, v vector) string {
	var in struct {
		RawInput, Field, Abort, Command  string
		Stdout, Stderr, Error, Directory *string
		Output                           *string // of both streams, which is stdout here
		ExitCode, Signal                 *int
		BackgroundPIDs                   *[]int
		Timeout                          bool
		TimeoutMs                        int `json:"timeout_ms"`
	}
	v.input(t, &in)
	switch {
	case in.RawInput != "":
		out, err := RunShellCommand{onHost(t, Config{Profile: "asimi"})}.Call(t.Context(), in.RawInput)
		var prefix, cwd string
		var failed bool
		if v.answer(t, "goError", &failed); failed != (err != nil) {
			return errorText(err)
		}
		if v.answer(t, "messagePrefix", &prefix) {
			if err == nil || !strings.HasPrefix(err.Error(), prefix) {
				return errorText(err)
			}
			return ""
		}
		var got struct{ Stdout string }
		if v.answer(t, "cwd", &cwd); cwd != "project root" {
			t.Fatalf("%s: there is no directory %q here", v.ID, cwd)
		}
		if err != nil || json.Unmarshal([]byte(out), &got) != nil || !strings.Contains(got.Stdout, "/") {
			return out
		}
		return ""
	case in.Field != "":
		var present bool
		if v.answer(t, "present", &present); present != strings.Contains("\n"+Output{}.Text(), "\n"+in.Field+": ") {
			return "it is not as it should be whether there is such a line"
		}
		return ""
	case in.Abort != "":
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		o, err := newTool(t, Config{}).Run(ctx, Input{Command: "ls"})
		var text string
		if v.answer(t, "text", &text); err != nil || o.Error == nil || *o.Error != text {
			return o.Text()
		}
		return ""
	case in.TimeoutMs != 0 || in.Timeout:
		o := do(t, onHost(t, Config{Timeout: time.Millisecond}), Input{Command: "sleep 5"})
		var code, text string
		if v.answer(t, "exitCode", &code) && none(o.ExitCode, strconv.Itoa) != code || v.answer(t, "text", &text) && *o.Error != text {
			return o.Text()
		}
		return ""
	case in.Command != "":
		return sameEnd(t, v, do(t, onHost(t, Config{}), Input{Command: in.Command}))
	}
	o := Output{Error: in.Error, ExitCode: in.ExitCode, Signal: in.Signal}
	if in.Stdout != nil {
		o.Stdout, o.Stderr = *in.Stdout, *in.Stderr
	}
	if in.Output != nil {
		o.Stdout = *in.Output
	}
	if in.BackgroundPIDs != nil {
		o.BackgroundPIDs = *in.BackgroundPIDs
	}
	var contains string
	if v.answer(t, "contains", &contains) && !strings.Contains(o.Text(), contains) {
		return o.Text()
	}
	for name := range v.Expected {
		label, ok := strings.CutPrefix(name, "line:")
		var want string
		if ok && v.answer(t, name, &want) && !slices.Contains(strings.Split(o.Text(), "\n"), label+": "+want) {
			return o.Text()
		}
	}
	return ""
}

// sameEnd compares how a command ended.
func sameEnd(t *testing.T, v vector, o Output) string {
	t.Helper()
	text := fmt.Sprintf("%s (%d orphans)", o.Text(), len(o.BackgroundPIDs))
	var n int
	if _, ok := v.Want["signal"]; !ok { // otherwise Want replaces the expected code
		for _, name := range []string{"rc", "exitCode"} {
			if raw := v.Expected[name]; string(raw) == `"null"` || string(raw) == "-1" {
				v.asked[name] = true
				if o.ExitCode != nil {
					return text
				}
			} else if v.answer(t, name, &n) && (o.ExitCode == nil || *o.ExitCode != n) {
				return text
			}
		}
	}
	if v.answer(t, "signal", &n) && (o.Signal == nil || *o.Signal != n || o.ExitCode != nil) {
		return text
	}
	if v.answer(t, "bg", &n) && len(o.BackgroundPIDs) != n {
		return text
	}
	var errorIs string
	if v.answer(t, "error", &errorIs) && o.Error != nil {
		return text
	}
	var stdout string
	if v.answer(t, "stdout", &stdout) && o.Stdout != stdout {
		return text
	}
	return ""
}

func checkRun(t *testing.T, v vector) string {
	var in struct {
		Command      string
		Cmd          string // how Go's os/exec was used, for rows from it
		Calls        []string
		IsBackground bool `json:"is_background"`
		TimeoutMs    int  `json:"ctx_timeout_ms"`
	}
	v.input(t, &in)
	tool := onHost(t, Config{})
	if in.Calls != nil {
		do(t, tool, Input{Command: in.Calls[0]})
		if o := do(t, tool, Input{Command: in.Calls[1]}); o.Stdout != tool.cfg.Root+"\n" {
			return o.Stdout
		}
		return ""
	}
	ctx := t.Context()
	if in.TimeoutMs > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(in.TimeoutMs)*time.Millisecond)
		defer cancel()
	}
	began := time.Now()
	o, err := tool.Run(ctx, Input{Command: in.Command, IsBackground: in.IsBackground})
	if err != nil {
		return err.Error()
	}
	if took := time.Since(began); took > 5*time.Second {
		return "it took " + took.String()
	}
	var pids struct{ Min int }
	if v.answer(t, "backgroundPids", &pids) && len(o.BackgroundPIDs) < pids.Min {
		return o.Text()
	}
	return sameEnd(t, v, o)
}

func checkOutput(t *testing.T, v vector) string {
	var in struct {
		Bytes, UTF8    string
		Split          int `json:"chunk_split_at_byte"`
		Stdout, Stderr string
		Platform       string
		ExitCode       int
		Abort          bool `json:"abort_while_running"`
	}
	v.input(t, &in)
	if in.Platform == "win32" {
		if line := WindowsCommandLine("<command>"); !strings.HasPrefix(line, "cmd.exe ") || !strings.Contains(line, "/c \"<command>\"") {
			return line
		}
		return ""
	}
	if in.Abort {
		tool := onHost(t, Config{})
		ctx, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(100*time.Millisecond, cancel).Stop()
		o, err := tool.Run(ctx, Input{Command: "sleep 5"})
		var name string
		if v.answer(t, "signal", &name); err != nil || o.Signal == nil || corral.Signal(*o.Signal).String() != name {
			return o.Text()
		}
		return ""
	}
	ex := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"bash -c x": func(io *fakeexec.IO) int {
		for _, part := range []string{in.Bytes, in.UTF8[:in.Split], in.UTF8[in.Split:], in.Stdout} {
			fmt.Fprint(io.Stdout, part)
		}
		fmt.Fprint(io.Stderr, in.Stderr)
		return in.ExitCode
	}}}
	defer ex.Close()
	o := do(t, newTool(t, Config{Executor: ex}), Input{Command: "x"})
	var stdout, stderr string
	if v.answer(t, "stdout", &stdout) && o.Stdout != stdout || v.answer(t, "stderr", &stderr) && o.Stderr != stderr {
		return o.Text()
	}
	return ""
}
