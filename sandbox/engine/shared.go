package engine

import (
	"path"
	"slices"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/boundary"
)

// Workdir is where a sandbox has its workspace.
const Workdir = "/workspace"

// Here reports whether the engine mounts what this program names: all of it, or
// what the two share.
func (info Info) Here() bool { return info.Local || info.Nested }

// Translate are mounts as the engine's machine has them. What it does not have,
// or must not give away under that name, is an error.
func (info Info) Translate(mounts []Mount) ([]Mount, error) {
	if info.Local {
		return mounts, nil
	}
	list := slices.Clone(mounts)
	for i, m := range list {
		if m.Volume || m.Source == "" { // a private workspace that is only planned
			continue
		}
		source, err := info.onEngine(m)
		if err != nil {
			return nil, err
		}
		list[i].Source = source
	}
	return list, nil
}

// onEngine is the source of a mount as the engine's machine has it, where the two
// share only what is mounted into this program's own container.
func (info Info) onEngine(m Mount) (string, error) {
	dir := m.Source
	if !info.Nested {
		return "", corral.Errorf(corral.ErrUnavailable, "leave it out (a workspace: access none), or use an engine on this machine", "%s cannot be mounted by the engine at %s, which does not see this machine's files", dir, info.Address)
	}
	var best Mount
	for _, s := range info.Shared {
		if (dir == s.Target || strings.HasPrefix(dir, strings.TrimSuffix(s.Target, "/")+"/")) && len(s.Target) >= len(best.Target) {
			best = s
		}
	}
	source := path.Join(best.Source, strings.TrimPrefix(dir, best.Target))
	switch {
	case best.Source == "":
		return "", corral.Errorf(corral.ErrUnavailable, "mount it into corral's container (docker run -v DIR:"+dir+"), or leave it out (a workspace: access none)", "corral runs in a container, and the engine's machine does not have its directory %s", dir)
	case best.ReadOnly && !m.ReadOnly:
		return "", corral.Errorf(corral.ErrDenied, "use it read-only, or mount it into corral's container without :ro", "corral itself cannot write to %s, and a sandbox is not to write there", dir)
	case best.Volume:
		return source, nil // which is in a directory of the engine's own
	}
	if r := boundary.CheckElsewhere(source, m.Target == Workdir); r != nil {
		return "", r
	}
	return source, nil
}
