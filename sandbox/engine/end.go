package engine

import (
	"fmt"
	"strings"
	"time"

	"github.com/corral-exec/corral"
)

// Killed is the exit code of a container whose init was killed.
const Killed = 128 + int(corral.SIGKILL)

// End is how a container ended: in the engine's words, unless it was removed
// while it ran.
type End struct {
	At      time.Time `json:"at"` // when that was noticed
	Removed bool      `json:"removed,omitempty"`
	Code    int       `json:"code"` // of its init
	OOM     bool      `json:"oomKilled,omitempty"`
	Error   string    `json:"error,omitempty"`
	Why     string    `json:"why,omitempty"` // it was removed while commands ran in it; empty: that was asked for
}

// How is what an end means for what ran there; empty: nothing is known.
func (e *End) How() string {
	switch {
	case e.Why != "":
		return e.Why
	case e.Removed:
		return "its container was removed"
	case e.OfMemory():
		return "there was no memory left in the sandbox, or for it"
	case e.Code == 0 || e.Code == Killed:
		return ""
	}
	how := fmt.Sprintf("its init ended by itself, with code %d", e.Code)
	if e.OOM { // gVisor ends so when a part of it was killed
		how += "; something in it had been killed because there was no memory left"
	}
	return how
}

// OfMemory reports whether it was for want of memory. An engine says as well of a
// container that goes on, and ends otherwise later, that some process in it was
// killed for that.
func (e *End) OfMemory() bool { return e.OOM && e.Code == Killed }

// EndOf is what the engine says of a container that has ended.
func EndOf(c Container) *End {
	return &End{At: time.Now().UTC().Truncate(time.Second), Code: c.Exit, OOM: c.OOM, Error: Clip(c.Error)}
}

// maxWords bounds what is kept of an engine's words, in bytes.
const maxWords = 4 << 10

// Clip bounds what an engine says.
func Clip(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxWords)], "\uFFFD")
}
