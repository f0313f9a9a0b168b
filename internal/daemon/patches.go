package daemon

import (
	"context"
	"os"
	"slices"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/session"
	"github.com/corral-exec/corral/tool/patch"
)

// undoPatches undoes patches that the gateway was killed in, before a command finds some
// files of its workspace as before and others as after. A workspace that is not on this
// machine waits for its next patch, which does the same.
func (s *Gateway) undoPatches(ctx context.Context) {
	var dirs []string
	c := s.hosts.policies.live.Config()
	for _, agent := range append(c.Agents(), session.DefaultAgent) {
		dir, err := s.opt.workspaceOf(c.Agent(agent))
		if err != nil {
			s.log.Warn("patches that were cut short are not looked for", "agent", agent, "error", err)
			continue
		}
		dirs = append(dirs, dir)
	}
	boxes, err := sandbox.Sandboxes(s.dir)
	if err != nil {
		s.log.Warn("patches that were cut short are not looked for in some sandboxes", "error", err)
	}
	for _, box := range boxes {
		dirs = append(dirs, box.Workspace)
	}
	slices.Sort(dirs)
	for _, dir := range slices.Compact(dirs) {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue
		}
		warnings, err := patch.Recover(ctx, patch.Directory{Path: dir})
		for _, text := range warnings {
			s.log.Warn(text, "workspace", dir)
		}
		if err != nil {
			s.log.Warn("a patch that was cut short may be left in a workspace", "workspace", dir, "error", err, "hint", corral.Hint(err))
		}
	}
}
