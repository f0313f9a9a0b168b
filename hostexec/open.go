package hostexec

import (
	"os"

	"github.com/corral-exec/corral/pathenv"
)

// Open is [New] with common defaults for unset fields of cfg: StateDir is
// pathenv.ProgramStateDir, and LoginPath asks the account's login shell, once, when the
// first command is started.
func Open(cfg Config) (_ *Executor, err error) {
	if cfg.StateDir == "" {
		if cfg.StateDir, err = pathenv.ProgramStateDir(); err != nil {
			return nil, err
		}
	}
	if cfg.LoginPath == nil && cfg.LoginProbe == nil {
		environ := cfg.Environ
		if environ == nil {
			environ = os.Environ()
		}
		home, err := pathenv.AccountHome()
		if err != nil {
			home = "" // an account without one: the shell gets HOME as it is
		}
		cfg.LoginProbe = pathenv.NewLoginProbe(pathenv.ProbeOptions{Environ: environ, Home: home})
	}
	if cfg.LoginPath == nil {
		cfg.LoginPath = cfg.LoginProbe.PATH
	}
	e, err := New(cfg)
	if err != nil && cfg.LoginProbe != nil {
		cfg.LoginProbe.Close()
	}
	return e, err
}
