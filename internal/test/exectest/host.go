package exectest

import (
	"testing"

	"github.com/corral-exec/corral"
)

// HostEnviron is the environment of a gateway host under test, whose workspace
// and home are one directory.
func HostEnviron(dir string) []string {
	return []string{"HOME=" + dir, "PATH=/usr/local/bin:/usr/bin:/bin", "SHELL=/bin/sh", "LANG=C.UTF-8"}
}

// HostTarget is what there is to know of commands on this machine, whatever
// stands between them and the suite, with HostEnviron and a directory as their
// workspace; the helper program is built in bin. Name, New and Reopen are left
// to fill in.
func HostTarget(t testing.TB, dir, bin string) Target {
	return Target{
		Workspace: dir, TestProg: BuildTestProg(t, bin),
		BaseEnv: map[string]string{
			"HOME": dir, "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8",
			"CORRAL_SHELL": "exec", "OPENCLAW_SHELL": "exec",
		},
		IgnoreEnv:      []string{"CORRAL_PROCESS"},
		RefusesEnvPath: corral.ErrDenied,
		Info:           corral.Info{Host: corral.HostGateway},
	}
}
