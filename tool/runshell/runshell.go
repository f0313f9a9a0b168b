package runshell

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/tool"
)

// Name is the name of the tool.
const Name = "run_shell_command"

// Description describes the tool to a model.
const Description = "This tool executes a given shell command. On Windows, it uses `cmd.exe /c`. On other platforms, it uses `bash -c`. It can start background processes."

// Config of a Tool. Executor, Profile and one of Root and Dir are required.
type Config struct {
	// Executor runs the commands. With a session.Agent, the tool process can follow
	// commands in the background.
	Executor corral.Executor
	// Profile is pathenv.ProfileQwen or pathenv.ProfileAsimi. It decides whether
	// there is a parameter is_background, which variable marks the commands, and
	// whether command substitution is refused.
	Profile pathenv.Profile

	// Root is the project root on this machine, in which the parameter directory is
	// looked up. Empty: this program cannot see the directories of commands. Then it
	// only checks that ".." does not leave the root; the executor reports a missing
	// directory.
	Root string
	// Dir is the path of the project root for commands. Empty: the executor's
	// workspace.
	Dir string

	// CoreTools and ExcludeTools restrict which commands run; see
	// docs/reference/run_shell_command.md.
	CoreTools, ExcludeTools []string
	// Approve decides on commands that the restrictions leave to a person. Nil: they
	// are denied.
	Approve Approver

	// Timeout ends the process tree of a command in the foreground; 0: none.
	Timeout time.Duration
	// Grace is the time between SIGTERM and SIGKILL; 0: corral.DefaultGrace.
	Grace time.Duration
	// MaxOutput bounds each of stdout and stderr of a result, in bytes. A longer one
	// is cut to its first and its last half. 0: tool.DefaultMaxOutput.
	MaxOutput int

	// Host, Node and Elevated say where commands run, if Executor is, or
	// ends in, a corral.Router.
	Host     corral.Host
	Node     string
	Elevated bool

	Log *slog.Logger // nil: nothing is logged
}

// A Tool is run_shell_command for one agent. Every method may be called from any
// goroutine.
type Tool struct {
	cfg      Config
	rules    restrictions
	approved approvals
}

// New returns the tool. The error is ErrInvalid, and names every invalid entry of
// CoreTools and ExcludeTools.
func New(cfg Config) (*Tool, error) {
	switch {
	case cfg.Executor == nil:
		return nil, corral.Errorf(corral.ErrInvalid, "set Executor", "%s has nothing to run commands on", Name)
	case cfg.Profile != pathenv.ProfileQwen && cfg.Profile != pathenv.ProfileAsimi:
		return nil, corral.Errorf(corral.ErrInvalid, "use qwen or asimi", "%s has no profile %q", Name, string(cfg.Profile))
	case cfg.Root == "" && cfg.Dir == "":
		return nil, corral.Errorf(corral.ErrInvalid, "set Root, or Dir if it is not on this machine", "%s has no project root", Name)
	}
	if cfg.Root != "" {
		var err error
		if cfg.Root, err = filepath.Abs(cfg.Root); err != nil {
			return nil, err
		}
		if info, err := os.Stat(cfg.Root); err != nil || !info.IsDir() {
			return nil, corral.Errorf(corral.ErrDir, "give a directory that exists", "the project root %s is not a directory", cfg.Root)
		}
	}
	if cfg.MaxOutput <= 0 {
		cfg.MaxOutput = tool.DefaultMaxOutput
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	rules, err := parseRestrictions(cfg.CoreTools, cfg.ExcludeTools)
	if err != nil {
		return nil, err
	}
	return &Tool{cfg: cfg, rules: rules}, nil
}

// Run runs a command. With an error nothing ran: the input was invalid ("invalid input:
// …", ErrInvalid, also for a directory), or the command was denied (ErrDenied). All
// other outcomes are in the Output: a command that failed, and a failure to run it
// (Output.Error).
//
// If ctx ends, the process tree of a command in the foreground is killed. A command in
// the background goes on.
func (t *Tool) Run(ctx context.Context, in Input) (Output, error) {
	v := t.Check(in.Command)
	if v.hard() {
		return Output{}, v.denial()
	}
	dir, err := t.validate(in)
	if err != nil {
		return Output{}, invalid(err)
	}
	if err := t.requireApproval(ctx, in, v); err != nil {
		return Output{}, err
	}
	return t.run(ctx, in, dir)
}

// Call calls the tool with arguments in JSON, for servers of tools. An error of Run
// becomes a result, since a model has to read it. The error is ErrNotFound, for another
// name than the tool's.
func (t *Tool) Call(ctx context.Context, name string, arguments json.RawMessage) (tool.Result, error) {
	if name != Name {
		return nil, corral.Errorf(corral.ErrNotFound, "the tool is "+Name, "there is no tool %q", name[:min(len(name), 60)])
	}
	out, err := t.call(ctx, arguments)
	if err != nil {
		out.fail(err)
	}
	return out, nil
}

func (t *Tool) call(ctx context.Context, arguments json.RawMessage) (Output, error) {
	in, warnings, err := t.Parse(arguments)
	if err != nil {
		return Output{Command: in.Command, Directory: in.Directory, Warnings: warnings}, err
	}
	out, err := t.Run(ctx, in)
	out.Command, out.Directory = in.Command, in.Directory
	out.Warnings = append(warnings, out.Warnings...)
	return out, err
}

// A RunShellCommand is run_shell_command as a tools.Tool of langchaingo.
type RunShellCommand struct{ Tool *Tool }

// Name is the name of the tool.
func (RunShellCommand) Name() string { return Name }

// Description describes the tool to a model.
func (RunShellCommand) Description() string { return Description }

// Call runs the command that input asks for, an Input in JSON, and returns its
// Output in JSON. The error is that of Tool.Run.
func (t RunShellCommand) Call(ctx context.Context, input string) (string, error) {
	if t.Tool == nil {
		return "", corral.Errorf(corral.ErrUnavailable, "make it with New", "%s has nothing to run commands on", Name)
	}
	out, err := t.Tool.call(ctx, json.RawMessage(input))
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("failed to marshal output: %w", err)
	}
	return string(text), nil
}

// invalid makes an error for invalid input; see Tool.Run.
func invalid(err error) error {
	kind := corral.ErrInvalid
	if errors.Is(err, corral.ErrDir) {
		kind = corral.ErrDir
	}
	return corral.Errorf(kind, corral.Hint(err), "invalid input: %w", err)
}
