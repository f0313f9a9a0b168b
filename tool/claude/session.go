package claude

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/tools/agenttoolset"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/runner"
)

const (
	// maxTime is what a command may take. The SDK gives up on a call after 120 s, and
	// then nothing of its output would be left.
	maxTime = 110 * time.Second
	// cleanTime is what it may take to remove skills, or to give an item back.
	cleanTime = 20 * time.Second

	maxOutput = 100 << 10 // of a command, in bytes
	maxFile   = 256 << 10 // that is read or changed, in bytes
)

// A session is one of Claude's, and runs its tools as commands.
type session struct {
	id     string
	ex     corral.Executor
	log    *slog.Logger
	skills []string // names below skills/ that were put there

	preparing sync.Mutex
	ready     bool // the shell's state has a place
}

// A call is a command that a tool needs.
type call struct {
	args  []string
	env   map[string]string
	input io.Reader
	limit time.Duration // 0: maxTime
	merge bool          // standard error is part of the output
	max   int           // output that is kept, in bytes
}

func (s *session) run(ctx context.Context, tool string, c call) (runner.Result, error) {
	cmd := corral.Command{
		Args: c.args, Env: c.env, Host: corral.HostSandbox, MergeStderr: c.merge, Timeout: maxTime,
		Description: fmt.Sprintf("Claude session %s: %s", s.id, tool),
	}
	if c.limit > 0 {
		cmd.Timeout = min(c.limit, maxTime)
	}
	// The head and the tail may have so much each.
	return runner.Run(ctx, s.ex, cmd, runner.Options{Stdin: c.input, MaxOutput: (c.max + 1) / 2})
}

// output runs a command and returns all of its output. It is an error if the command does
// not exit with 0 or one of the codes, or writes more than c.max bytes.
func (s *session) output(ctx context.Context, tool string, c call, codes ...int) (string, int, error) {
	res, err := s.run(ctx, tool, c)
	out := res.Stdout.Head + res.Stdout.Tail
	switch {
	case err != nil:
		return "", 0, err
	case !exited(res.Exit) || res.Exit.Code != 0 && !slices.Contains(codes, res.Exit.Code):
		return "", 0, failed(res)
	case res.Stdout.Omitted > 0:
		return "", 0, errTooMuch
	}
	return out, res.Exit.Code, nil
}

// exited reports whether a command ended by itself, and not at its time-out.
func exited(e corral.Exit) bool { return e.Reason == corral.ReasonExited && e.Code >= 0 }

// failed says how a command failed.
func failed(res runner.Result) error {
	return fmt.Errorf("%s (%v)", strings.TrimSpace(text(res.Stderr.String())), res.Exit)
}

var errTooMuch = errors.New("there is more than can be returned")

// text is what a sandbox wrote, as text.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// A tool has the name and the schema of the SDK's, and runs commands.
type tool struct {
	anthropic.BetaTool
	do func(context.Context, json.RawMessage) (string, error)
}

// Execute implements anthropic.BetaTool. What a command did wrong is an error too: the
// model sees its text.
func (t tool) Execute(ctx context.Context, input json.RawMessage) ([]anthropic.BetaToolResultBlockParamContentUnion, error) {
	out, err := t.do(ctx, input)
	if err != nil {
		if hint := corral.Hint(err); hint != "" {
			err = fmt.Errorf("%w (%s)", err, hint)
		}
		return nil, err
	}
	return []anthropic.BetaToolResultBlockParamContentUnion{{OfText: &anthropic.BetaTextBlockParam{Text: text(out)}}}, nil
}

func (s *session) tools(env *agenttoolset.AgentToolContext) []anthropic.BetaTool {
	does := map[string]func(context.Context, json.RawMessage) (string, error){
		"bash": read(s.bash), "read": read(s.read), "write": read(s.write), "edit": read(s.edit), "glob": read(s.glob), "grep": read(s.grep),
	}
	var tools []anthropic.BetaTool
	for _, t := range agenttoolset.BetaAgentToolset20260401(env) {
		if do, ok := does[t.Name()]; ok {
			tools = append(tools, tool{t, do})
		}
	}
	return tools
}

// read has a tool read its input.
func read[In any](do func(context.Context, In) (string, error)) func(context.Context, json.RawMessage) (string, error) {
	return func(ctx context.Context, input json.RawMessage) (string, error) {
		var in In
		if err := json.Unmarshal(input, &in); err != nil {
			return "", fmt.Errorf("cannot read the input: %w", err)
		}
		return do(ctx, in)
	}
}

// sendSkills puts the skills that the SDK has fetched into the workspace, as skills/NAME.
// A session without its skills is worse, and goes on.
func (s *session) sendSkills(ctx context.Context, dir string) {
	dir = filepath.Join(dir, "skills")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	for _, e := range entries {
		s.skills = append(s.skills, "skills/"+e.Name())
	}
	if err == nil && len(s.skills) > 0 {
		from, to := io.Pipe()
		go func() {
			archive := tar.NewWriter(to)
			err := archive.AddFS(os.DirFS(dir))
			to.CloseWithError(errors.Join(err, archive.Close()))
		}()
		const unpack = `rm -rf -- "$@" && mkdir -p skills && tar -xof - -C skills`
		_, _, err = s.output(ctx, "skills", call{args: slices.Concat([]string{"sh", "-c", unpack, "sh"}, s.skills), input: from})
		from.Close() // ends the goroutine if the command did not read to the end
	}
	if err != nil {
		s.log.Warn("the session has no skills", "error", err)
	}
}

// end removes the skills from the workspace: another session may use it.
func (s *session) end(ctx context.Context) {
	if len(s.skills) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	if _, _, err := s.output(ctx, "skills", call{args: slices.Concat([]string{"rm", "-rf", "--"}, s.skills)}); err != nil {
		s.log.Warn("the session's skills are left in the workspace", "error", err)
	}
}
