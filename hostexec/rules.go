package hostexec

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/corral-exec/corral/internal/warden/wardenexec"
	"github.com/corral-exec/corral/pathenv"
)

func (c *Config) rules(ctx context.Context) pathenv.Rules {
	if r, ok := pathenv.RulesFrom(ctx); ok {
		return r
	}
	return pathenv.Rules{EnvPath: c.EnvPath, Keep: c.Keep}
}

// Agents returns the recorded processes of a state directory that were begun for an
// agent (see corral.WithAgent), as a map from ID to agent.
func Agents(stateDir string) (map[string]string, error) {
	agents, err := wardenexec.Agents(logDir(stateDir))
	if err != nil {
		return nil, fmt.Errorf("cannot read the records of this machine's commands: %w", err)
	}
	return agents, nil
}

func logDir(stateDir string) string { return filepath.Join(stateDir, "logs", "host") }
