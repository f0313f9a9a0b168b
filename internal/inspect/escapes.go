package inspect

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/doctor"
	"github.com/corral-exec/corral/internal/escape"
	"github.com/corral-exec/corral/runner"
)

const (
	proberName = "corral-escape" // the program that tries to get out of a sandbox
	probeVar   = "CORRAL_PROBE"  // environment variable with its path
)

// proberMachine is the machine in the ELF header of programs for a GOARCH.
var proberMachine = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// findProber returns the path of the program for an architecture: the named one, the one
// in dir, or the one on PATH. It must run in any image.
func findProber(named, goarch, dir string) (string, error) {
	hint := fmt.Sprintf("CGO_ENABLED=0 GOOS=linux GOARCH=%s %s, or name the file of the program in %s", goarch, Install(proberName), probeVar)
	file := named
	if file == "" {
		var err error
		if file, err = FindProgram("the tries are made", proberName, dir, hint); err != nil {
			return "", err
		}
	}
	f, err := elf.Open(file)
	if err != nil {
		return "", corral.Errorf(corral.ErrUnavailable, hint, "%s is no program for a sandbox: %w", file, err)
	}
	defer f.Close()
	if machine, known := proberMachine[goarch]; !known || f.Machine != machine {
		return "", corral.Errorf(corral.ErrUnavailable, hint, "%s is for %v and does not run in a sandbox of linux/%s", file, f.Machine, goarch)
	}
	if slices.ContainsFunc(f.Progs, func(s *elf.Prog) bool { return s.Type == elf.PT_INTERP }) {
		return "", corral.Errorf(corral.ErrUnavailable, hint, "%s needs libraries, which a sandbox may not have", file)
	}
	return filepath.Abs(file)
}

// FindProgram is the path of another program of Corral's, which does something: the one
// in dir, or on PATH.
func FindProgram(does, name, dir, hint string) (string, error) {
	file, err := exec.LookPath(filepath.Join(dir, name))
	if err != nil {
		file, err = exec.LookPath(name)
	}
	if err != nil {
		return "", corral.Errorf(corral.ErrUnavailable, hint, "%s by the program %s, which is neither in %s nor on PATH", does, name, dir)
	}
	return file, nil
}

// Install says how to get another program of Corral's, of the version of this one.
func Install(name string) string {
	build, _ := debug.ReadBuildInfo()
	return fmt.Sprintf("go install github.com/corral-exec/corral/cmd/%s@%s, or make build in a checkout", name, moduleVersion(build))
}

// moduleVersion is the version of this program for go install.
func moduleVersion(build *debug.BuildInfo) string {
	if build != nil && strings.HasPrefix(build.Main.Version, "v") && !strings.Contains(build.Main.Version, "+") { // v1.2.3+dirty
		return build.Main.Version
	}
	return "latest"
}

const (
	inSandbox = "/tmp/" + proberName // where the program is put
	deepLimit = 5 * time.Minute      // of all tries together
	notMade   = "warden/kill"        // it would end the sandbox on gVisor
)

// escapes makes a sandbox like those of the agent main, and tries to get out of it.
func (m *Machine) escapes(ctx context.Context, goarch string, local bool) (doctor.Finding, []escape.Result) {
	ctx, cancel := context.WithTimeout(ctx, deepLimit)
	defer cancel()
	results, err := m.tryEscapes(ctx, goarch, local)
	if err != nil {
		return doctor.Failed("escape", err, "It is not known whether a command in a sandbox can get out."), nil
	}
	return doctor.Escapes(results), results
}

func (m *Machine) tryEscapes(ctx context.Context, goarch string, local bool) (_ []escape.Result, err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	program, err := findProber(m.Getenv(probeVar), goarch, filepath.Dir(exe))
	if err != nil {
		return nil, err
	}
	if _, err := m.Config.Load(); err != nil {
		return nil, err
	}
	settings := m.Settings // of the agent main
	settings.Ephemeral, settings.Workspace.Dir, settings.Workspace.Access = true, "", "none"
	box, err := m.Backends.Sandbox(daemon.SandboxOptions{Settings: settings, StateDir: m.StateDir, Progress: m.Progress})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	if _, err := runIn(ctx, box, corral.Command{Shell: "cat >" + inSandbox + " && chmod 755 " + inSandbox}, content); err != nil {
		return nil, fmt.Errorf("cannot put %s into a sandbox: %w", program, err)
	}
	user, err := userOf(ctx, box)
	if err != nil {
		return nil, err
	}
	site, leave, err := layOut(program, user, local)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, leave()) }()
	raw, err := json.Marshal(site)
	if err != nil {
		return nil, err
	}
	out, err := runIn(ctx, box, corral.Command{
		Args: []string{inSandbox, "run", "-but", notMade}, Env: map[string]string{escape.SiteVar: string(raw)}, Timeout: deepLimit,
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot make the tries: %w", err)
	}
	return escape.ParseResults(out)
}

// runIn runs a command and returns its output; a failed command is an error.
func runIn(ctx context.Context, box corral.Executor, cmd corral.Command, stdin []byte) ([]byte, error) {
	const most = 1 << 20
	opt := runner.Options{MaxOutput: most}
	if stdin != nil {
		opt.Stdin = bytes.NewReader(stdin)
	}
	res, err := runner.Run(ctx, box, cmd, opt)
	if err == nil && !res.Exit.Success() {
		err = corral.Errorf(corral.ErrUnavailable, "", "%v: %.200s", res.Exit, strings.TrimSpace(res.Stderr.String()))
	}
	return []byte(res.Stdout.String()), err
}

// userOf is the UID:GID on this machine of a sandbox's commands; or that of this process,
// if it is not root and so cannot change to another user.
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

// layOut makes targets on this machine for the tries: a file, and a canary process that
// holds a secret. If the engine is on another machine, there are no targets.
func layOut(program, user string, local bool) (site escape.Site, leave func() error, err error) {
	secret, sum := escape.NewSecret()
	site.Sum = sum
	leave = func() error { return nil }
	if !local || runtime.GOOS != "linux" {
		return site, leave, nil
	}
	f, err := os.CreateTemp("", "corral-escape-")
	if err != nil {
		return site, leave, daemon.NoTempDir(err)
	}
	site.File = f.Name()
	leave = func() error { return os.Remove(site.File) }
	_, err = f.WriteString(secret)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return site, leave, errors.Join(err, leave())
	}
	canary, err := escape.StartCanary(secret, program, "-user", user)
	if err != nil {
		return site, leave, errors.Join(err, leave())
	}
	site.Process = canary.Process
	return site, func() error { return errors.Join(os.Remove(site.File), canary.Close()) }, nil
}
