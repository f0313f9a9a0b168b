package exectest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/built"
)

// A Target is an executor under test and what the cases must know about the
// place where its commands run. Name, New, Workspace, TestProg and BaseEnv are
// required.
type Target struct {
	Name string

	// New makes an executor; t.Cleanup closes it. Most cases share one, run
	// at the same time; those that count resources make their own.
	New func(t testing.TB) corral.Executor

	// Reopen ends the life of an executor that New or Reopen made, by
	// Close or by killing the process that held it, and begins another
	// over the same state. Nil where commands cannot outlive an executor:
	// the reopen cases are then left out and counted as such.
	Reopen func(t testing.TB, old corral.Executor) corral.Executor

	// Workspace is the working directory of commands without a Dir, as
	// they see it, free of symlinks, writable and allowing execution.
	Workspace string

	// TestProg is the file that BuildTestProg makes, as commands see it.
	TestProg string

	// BaseEnv is the exact environment of Command.Args without Env;
	// ShellEnv is what Command.Shell has beside or instead of it, such as
	// a login shell's PATH. What shells set by themselves (PWD, OLDPWD,
	// SHLVL, _) and the keys in IgnoreEnv are not looked at.
	BaseEnv   map[string]string
	ShellEnv  map[string]string
	IgnoreEnv []string

	// RefusesEnvPath is the error kind with which Start refuses PATH in
	// Command.Env; nil where it is honoured.
	RefusesEnvPath error

	// Where the executor says that commands run. Only these three fields
	// are compared.
	Info corral.Info

	// Unsupported are patterns (path.Match) of the names of cases in which
	// some call must answer errors.ErrUnsupported. Each is tested to do so.
	Unsupported []string
	// Exempt says, by the name of a case, why this place cannot behave
	// so. Such a case is not run; it is counted and reported.
	Exempt map[string]string

	// Memory is how much memory, in bytes, commands have together; 0 where
	// they have no limit of their own: what takes all of it is then not run,
	// and counted as exempt.
	Memory int64

	// CountProcs counts living processes and zombies where commands run,
	// or those of the executor; it is nil where that cannot be told. It is
	// called when no command of the suite should be left.
	CountProcs func(t testing.TB) (alive, zombies int)

	// Slow is how many times slower than a local process this executor may
	// be: time limits are multiplied by it and large volumes divided. 0 is 1.
	Slow int

	patience time.Duration // bounds a case; 0 is the default
}

// BuildTestProg builds the helper program as dir/testprog, static, and returns
// that path. The directory must exist; other users may execute the file.
func BuildTestProg(t testing.TB, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "testprog")
	built.Copy(t, "internal/test/exectest/testprog", path)
	return path
}

// slack is by how much time limits grow on this machine and target.
func (tg *Target) slack() time.Duration {
	n := max(tg.Slow, 1)
	if Race {
		n *= 3
	}
	if os.Getenv("CI") != "" {
		n *= 5
	}
	return time.Duration(n)
}
