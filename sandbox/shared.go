package sandbox

import (
	"path"
	"strings"

	"github.com/corral-exec/corral"
)

// onEngine is a directory of this program's as the engine's machine has it,
// where the two share only what is mounted into this program's own container.
func (info EngineInfo) onEngine(dir string) (string, error) {
	if !info.Nested {
		return "", corral.Errorf(corral.ErrUnavailable, "use access none, or an engine on this machine", "the workspace %s cannot be mounted by the engine at %s, which does not see this machine's files", dir, info.Address)
	}
	var best Mount
	for _, m := range info.Shared {
		if (dir == m.Target || strings.HasPrefix(dir, strings.TrimSuffix(m.Target, "/")+"/")) && len(m.Target) > len(best.Target) {
			best = m
		}
	}
	if best.Target == "" {
		return "", corral.Errorf(corral.ErrUnavailable, "mount it into corral's container (docker run -v DIR:"+dir+"), or use access none", "corral runs in a container, and the engine's machine does not have its directory %s", dir)
	}
	return path.Join(best.Source, strings.TrimPrefix(dir, best.Target)), nil
}
