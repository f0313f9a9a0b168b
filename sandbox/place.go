package sandbox

import (
	"context"
	"errors"
	"strings"

	"github.com/corral-exec/corral/sandbox/engine"
)

// A path says which state directory a container belongs to only to who sees the
// same files. Others that use the engine may be in a container, have a /tmp of
// their own (PrivateTmp of systemd), or be on another machine: what is not there
// for them may well be in use. So a container's labels say which directory it is.

// A place is a directory of a machine, until that is started anew, and who saw it.
// The zero place is not known.
type place struct{ machine, boot, mounts, inode string }

func (p place) String() string {
	return strings.Join([]string{p.machine, p.boot, p.mounts, p.inode}, "/")
}

func parsePlace(text string) place {
	parts := append(strings.SplitN(text, "/", 4), "", "", "")
	return place{parts[0], parts[1], parts[2], parts[3]}
}

// sees reports whether a program for which a container's state directory is at
// the place now can tell what became of it. An owner that lives keeps its mount
// namespace, so no other one has its number. If the machine was started anew in
// between, everything that was in use has ended, and inodes may be others.
func (p place) sees(now place, ephemeral bool) bool {
	if p.boot == now.boot {
		return p.inode != "" && p.inode == now.inode || ephemeral && p.mounts != "" && p.mounts == now.mounts
	}
	return p.machine != "" && p.machine == now.machine
}

// oursToJudge reports whether what is at the path of a container's state directory
// here is that directory.
func oursToJudge(c engine.Container) bool {
	text := c.Labels[labelPlace]
	if text == "" { // made by an earlier version, or by another system's
		return true
	}
	ephemeral := c.Labels[labelEphemeral] == "1"
	return parsePlace(text).sees(placeOf(c.Labels[labelState], ephemeral), ephemeral)
}

// ownerGone reports whether the owner of an ephemeral container was in a container
// of this engine that has ended.
func ownerGone(ctx context.Context, eng engine.Engine, c engine.Container) (bool, error) {
	id := c.Labels[labelOwner]
	if id == "" {
		return false, nil
	}
	owner, err := eng.Inspect(ctx, id)
	if errors.Is(err, engine.ErrNoContainer) {
		return true, nil
	}
	return err == nil && !owner.Running, err
}
