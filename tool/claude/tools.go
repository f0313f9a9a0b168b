package claude

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
)

// keepState is what bash reads before a command (BASH_ENV): it takes over directory,
// variables and functions of the command before, and keeps them for the next one. So each
// call is a command of its own, with its own record, time-out and end, and yet a shell
// seems to live on. What Corral sets for each command is not kept, and what the shell
// does not let be set is not taken over. %s is the session's directory.
const keepState = `unset BASH_ENV
[ -f %[1]s/state ] && . %[1]s/state 2>/dev/null
trap '{ set +x; unset "${!CORRAL_@}"; { printf "cd -- %%q\n" "$PWD"; declare -p; declare -f; } >%[1]s/new.$$ && mv -f %[1]s/new.$$ %[1]s/state; } 2>/dev/null' EXIT
`

func (s *session) place() string { return "/tmp/claude-" + s.id }

// prepare makes a place for the shell's state in the sandbox.
func (s *session) prepare(ctx context.Context) error {
	s.preparing.Lock() // the tools of one message run at the same time
	defer s.preparing.Unlock()
	if s.ready {
		return nil
	}
	_, _, err := s.output(ctx, "a place for the state of the shell", call{
		args:  []string{"sh", "-c", `mkdir -p "$1" && cat >"$1/rc"`, "sh", s.place()},
		input: strings.NewReader(fmt.Sprintf(keepState, s.place())),
	})
	s.ready = err == nil
	return err
}

func (s *session) bash(ctx context.Context, in anthropic.BetaManagedAgentsAgentToolset20260401BashInput) (string, error) {
	if err := s.prepare(ctx); err != nil {
		return "", err
	}
	if in.Restart {
		if _, _, err := s.output(ctx, "restart", call{args: []string{"rm", "-f", "--", s.place() + "/state"}}); err != nil || in.Command == "" {
			return "bash session restarted", err
		}
	}
	if in.Command == "" {
		return "", errors.New("command is required")
	}
	res, err := s.run(ctx, "bash", call{
		args: []string{"bash", "-c", "--", in.Command}, env: map[string]string{"BASH_ENV": s.place() + "/rc", "TERM": "dumb"},
		limit: time.Duration(in.TimeoutMs) * time.Millisecond, merge: true, max: maxOutput,
	})
	out := text(res.Output.String())
	switch {
	case err == nil && res.Exit.Success():
		return out, nil
	case err == nil:
		err = errors.New(res.Exit.String())
	}
	if out != "" {
		out = strings.TrimSuffix(out, "\n") + "\n"
	}
	return "", fmt.Errorf("%s%w", out, err)
}

func (s *session) read(ctx context.Context, in anthropic.BetaManagedAgentsAgentToolset20260401ReadInput) (string, error) {
	if len(in.ViewRange) == 0 {
		out, err := s.file(ctx, "read", in.FilePath)
		if errors.Is(err, errTooMuch) {
			err = fmt.Errorf("%s has more than %d bytes: read ranges of lines with view_range, such as [1, 500]", in.FilePath, maxFile)
		}
		return out, err
	}
	if in.FilePath == "" || len(in.ViewRange) != 2 {
		return "", errors.New("file_path is required, and view_range is [start_line, end_line]")
	}
	first, last := max(in.ViewRange[0], 1), in.ViewRange[1]
	script := fmt.Sprintf("%d,$p", first)
	if last > 0 {
		script = fmt.Sprintf("%d,%dp;%dq", first, last, last)
	}
	if last > 0 && last < first {
		return "", nil
	}
	out, _, err := s.output(ctx, "read "+in.FilePath, call{args: []string{"sed", "-n", "-e", script, "--", in.FilePath}, max: maxFile})
	if errors.Is(err, errTooMuch) {
		err = fmt.Errorf("these lines of %s have more than %d bytes: read fewer", in.FilePath, maxFile)
	}
	return strings.TrimSuffix(out, "\n"), err
}

// file is all of a file that has at most maxFile bytes.
func (s *session) file(ctx context.Context, tool, name string) (string, error) {
	if name == "" {
		return "", errors.New("file_path is required")
	}
	out, _, err := s.output(ctx, tool+" "+name, call{args: []string{"head", "-c", fmt.Sprint(maxFile + 1), "--", name}, max: maxFile + 1})
	if len(out) > maxFile {
		return "", errTooMuch
	}
	return out, err
}

// put replaces the content of a file. It makes the directories that are missing.
func (s *session) put(ctx context.Context, tool, name, content string) error {
	const script = `mkdir -p -- "$(dirname -- "$1")" && cat >"$1"`
	_, _, err := s.output(ctx, tool+" "+name, call{args: []string{"sh", "-c", script, "sh", name}, input: strings.NewReader(content)})
	return err
}

func (s *session) write(ctx context.Context, in anthropic.BetaManagedAgentsAgentToolset20260401WriteInput) (string, error) {
	if in.FilePath == "" {
		return "", errors.New("file_path is required")
	}
	return fmt.Sprintf("wrote %d bytes to %s", len(in.Content), in.FilePath), s.put(ctx, "write", in.FilePath, in.Content)
}

func (s *session) edit(ctx context.Context, in anthropic.BetaManagedAgentsAgentToolset20260401EditInput) (string, error) {
	if in.OldString == "" {
		return "", errors.New("old_string is required")
	}
	content, err := s.file(ctx, "edit", in.FilePath)
	if errors.Is(err, errTooMuch) {
		return "", fmt.Errorf("%s has more than %d bytes: change it with bash", in.FilePath, maxFile)
	}
	if err != nil {
		return "", err
	}
	n := strings.Count(content, in.OldString)
	switch {
	case n == 0:
		return "", fmt.Errorf("old_string not found in %s", in.FilePath)
	case n > 1 && !in.ReplaceAll:
		return "", fmt.Errorf("old_string appears %d times in %s (must be unique)", n, in.FilePath)
	}
	content = strings.ReplaceAll(content, in.OldString, in.NewString)
	return fmt.Sprintf("edited %s (%d replacement(s))", in.FilePath, n), s.put(ctx, "edit", in.FilePath, content)
}

const (
	// The pattern is expanded by bash, as paths, and not split at blanks.
	globScript = `IFS=; cd -- "$1" && set -- "$PWD"/$2 && [ $# -gt 0 ] && printf '%s\0' "$@" | xargs -0 ls -1td -- 2>/dev/null | head -n 200`
	grepScript = `command -v rg >/dev/null && exec rg -n --no-heading --with-filename --max-filesize 8M -e "$1" -- "$2"
flavour=-P; echo a | grep -qP a 2>/dev/null || flavour=-E
exec grep -rnIH $flavour --exclude-dir=.git --exclude-dir=node_modules -e "$1" -- "$2"`

	noMatches = "no matches"
)

func (s *session) glob(ctx context.Context, in anthropic.BetaManagedAgentsAgentToolset20260401GlobInput) (string, error) {
	if in.Pattern == "" || path.IsAbs(in.Pattern) {
		return "", errors.New("pattern is required, and relative to path")
	}
	args := []string{"bash", "-O", "globstar", "-O", "dotglob", "-O", "nullglob", "-c", globScript, "bash", cmp.Or(in.Path, "."), in.Pattern}
	out, code, err := s.output(ctx, "glob "+in.Pattern, call{args: args, max: maxOutput}, 1)
	if err == nil && code == 1 && out == "" {
		return noMatches, nil
	}
	return cmp.Or(strings.TrimSuffix(out, "\n"), noMatches), err
}

func (s *session) grep(ctx context.Context, in anthropic.BetaManagedAgentsAgentToolset20260401GrepInput) (string, error) {
	if in.Pattern == "" {
		return "", errors.New("pattern is required")
	}
	res, err := s.run(ctx, "grep "+in.Pattern, call{args: []string{"sh", "-c", grepScript, "sh", in.Pattern, cmp.Or(in.Path, ".")}, max: maxOutput})
	out := text(res.Stdout.String())
	switch {
	case err != nil:
		return "", err
	case !exited(res.Exit) || res.Exit.Code > 1 && out == "": // else some files could not be read
		return "", failed(res)
	}
	return cmp.Or(strings.TrimSuffix(out, "\n"), noMatches), nil
}
