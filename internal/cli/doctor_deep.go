package cli

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/escape"
	"github.com/corral-exec/corral/session"
)

// probeVar names the program that tries to get out of sandboxes, for where this
// one cannot: its engine has another architecture, or it is not static.
const probeVar = "CORRAL_PROBE"

// A prober is that program, and what comes before its own arguments.
type prober struct {
	file string
	args []string
}

// findProber returns a program that runs in any image of an architecture.
func (a *app) findProber(goarch string) (prober, error) {
	const hint = "use a corral that was built by make for linux on that architecture, or name one by " + probeVar
	p := prober{file: a.getenv(probeVar)}
	if p.file == "" {
		if runtime.GOOS != "linux" || runtime.GOARCH != goarch {
			return p, corral.Errorf(corral.ErrUnavailable, hint, "this corral is for %s/%s and does not run in a sandbox of linux/%s", runtime.GOOS, runtime.GOARCH, goarch)
		}
		exe, err := os.Executable()
		if err != nil {
			return p, corral.Errorf(corral.ErrUnavailable, hint, "cannot tell which program this is: %w", err)
		}
		p.file, p.args = exe, []string{"probe"}
	}
	f, err := elf.Open(p.file)
	if err != nil {
		return p, corral.Errorf(corral.ErrUnavailable, hint, "%s is no program for a sandbox: %w", p.file, err)
	}
	defer f.Close()
	if slices.ContainsFunc(f.Progs, func(s *elf.Prog) bool { return s.Type == elf.PT_INTERP }) {
		return p, corral.Errorf(corral.ErrUnavailable, hint, "%s needs libraries, which a sandbox may not have", p.file)
	}
	return p, nil
}

const (
	inSandbox = "/tmp/corral-probe" // where the program is put
	deepLimit = 5 * time.Minute     // of all tries together
	notMade   = "warden/kill"       // it would end the sandbox on gVisor
)

// checkEscape makes tries to get out of a sandbox such as the agent main has by
// its configuration and these settings, in one of its own, and says what came of them.
func (a *app) checkEscape(ctx context.Context, goarch string, local bool) (finding, []escape.Result) {
	const name, meaning = "escape", "It is not known whether a command in a sandbox can get out."
	ctx, cancel := context.WithTimeout(ctx, deepLimit)
	defer cancel()
	p, err := a.findProber(goarch)
	if err != nil {
		return failed(name, err, meaning), nil
	}
	results, err := a.tryEscapes(ctx, p, local)
	if err != nil {
		return failed(name, err, meaning), nil
	}
	return judgeEscapes(results), results
}

func (a *app) tryEscapes(ctx context.Context, p prober, local bool) (_ []escape.Result, err error) {
	dir, err := a.stateDir()
	if err != nil {
		return nil, err
	}
	c, err := a.config()
	if err != nil {
		return nil, err
	}
	settings := a.settingsOf(c.Agent(session.DefaultAgent))
	settings.Ephemeral, settings.Workspace, settings.Access = true, "", "none"
	box, err := a.backends.sandbox(sandboxOptions{settings: settings, stateDir: dir, progress: a.progress()})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	program, err := os.ReadFile(p.file)
	if err != nil {
		return nil, err
	}
	if _, err := runIn(ctx, box, corral.Command{Shell: "cat >" + inSandbox + " && chmod 755 " + inSandbox}, program); err != nil {
		return nil, fmt.Errorf("cannot put %s into a sandbox: %w", p.file, err)
	}
	user, err := userOf(ctx, box)
	if err != nil {
		return nil, err
	}
	site, leave, err := layOut(p, user, local)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, leave()) }()
	raw, err := json.Marshal(site)
	if err != nil {
		return nil, err
	}
	out, err := runIn(ctx, box, corral.Command{
		Args: append(append([]string{inSandbox}, p.args...), "run", "-but", notMade), Env: map[string]string{escape.SiteVar: string(raw)}, Timeout: deepLimit,
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot make the tries: %w", err)
	}
	return escape.ParseResults(out)
}

// runIn runs a command to its good end.
func runIn(ctx context.Context, box corral.Executor, cmd corral.Command, stdin []byte) ([]byte, error) {
	const most = 1 << 20
	opt := corral.RunOptions{MaxOutput: most}
	if stdin != nil {
		opt.Stdin = bytes.NewReader(stdin)
	}
	res, err := corral.Run(ctx, box, cmd, opt)
	if err == nil && !res.Exit.Success() {
		err = corral.Errorf(corral.ErrUnavailable, "", "%v: %.200s", res.Exit, strings.TrimSpace(res.Stderr.String()))
	}
	return []byte(res.Stdout.String()), err
}

// userOf is the user of a sandbox's commands as this machine knows it. If we cannot
// become that, it is ours.
func userOf(ctx context.Context, box corral.Executor) (string, error) {
	if uid := os.Geteuid(); uid > 0 {
		return fmt.Sprintf("%d:%d", uid, os.Getegid()), nil
	}
	out, err := runIn(ctx, box, corral.Command{Shell: escape.UserScript}, nil)
	if err != nil {
		return "", err
	}
	return escape.HostUser(string(out))
}

// layOut puts something on this machine for a sandbox to find: a file, and a
// process that tells whoever reaches it a secret. On another machine than the
// engine's there is nothing to find.
func layOut(p prober, user string, local bool) (site escape.Site, leave func() error, err error) {
	secret, sum := escape.NewSecret()
	site.Sum = sum
	leave = func() error { return nil }
	if !local || runtime.GOOS != "linux" {
		return site, leave, nil
	}
	f, err := os.CreateTemp("", "corral-escape-")
	if err != nil {
		return site, leave, noTempDir(err)
	}
	site.File = f.Name()
	leave = func() error { return os.Remove(site.File) }
	_, err = f.WriteString(secret)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return site, leave, errors.Join(err, leave())
	}
	program, err := filepath.Abs(p.file)
	if err != nil {
		return site, leave, errors.Join(err, leave())
	}
	canary, err := escape.StartCanary(secret, program, append(slices.Clone(p.args), "canary", "-user", user)...)
	if err != nil {
		return site, leave, errors.Join(err, leave())
	}
	site.Process = canary.Process
	return site, func() error { return errors.Join(os.Remove(site.File), canary.Close()) }, nil
}

// judgeEscapes says what the tries mean.
func judgeEscapes(results []escape.Result) finding {
	count := map[escape.Outcome]int{}
	var out []string
	for _, r := range results {
		count[r.Outcome]++
		if r.Outcome == escape.Escaped {
			out = append(out, fmt.Sprintf("%s (it %s: %s)", r.ID, r.Tries, r.Detail))
		}
	}
	text := fmt.Sprintf("of %d tries to get out of a sandbox %d were held", len(results), count[escape.Held]+count[escape.Inside])
	if n := count[escape.Inside]; n > 0 {
		text += fmt.Sprintf(" (%d of them reached gVisor's own kernel)", n)
	}
	if n := count[escape.Unsupported]; n > 0 {
		text += fmt.Sprintf(", %d could not be made here", n)
	}
	switch {
	case len(results) == 0:
		return finding{Name: "escape", Status: levelFail, Summary: "no try to get out of a sandbox was made", Meaning: "It is not known whether a command in a sandbox can get out."}
	case len(out) == 0:
		return ok("escape", "%s", text)
	}
	return finding{Name: "escape", Status: levelFail, Summary: fmt.Sprintf("%s, and %d got out: %s", text, len(out), strings.Join(out, "; ")),
		Meaning: "What is in a sandbox made with these settings can reach this machine, or could by a hole in its kernel.",
		Fix:     "see docs/reference/escape.md for what holds each of them; use the engine's default profiles, or --runtime runsc; if all is as it should be, report it"}
}
