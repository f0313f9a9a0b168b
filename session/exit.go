package session

import (
	"encoding/json"
	"time"

	"github.com/corral-exec/corral"
)

// An Exit is a corral.Exit in the JSON of results: exitCode is null if a signal ended
// the command; signal and signalName are null if no signal did.
type Exit struct{ corral.Exit }

type exitJSON struct {
	corral.ExitStatus
	Reason    corral.Reason `json:"reason"`
	StartedAt time.Time     `json:"startedAt"`
	EndedAt   time.Time     `json:"endedAt"`
	Orphans   []int         `json:"orphans,omitempty"`
	Refused   []string      `json:"refused,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (e Exit) MarshalJSON() ([]byte, error) {
	return json.Marshal(exitJSON{
		ExitStatus: e.Status(), Reason: e.Reason, StartedAt: e.StartedAt, EndedAt: e.EndedAt, Orphans: e.Orphans, Refused: e.Refused,
	})
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *Exit) UnmarshalJSON(b []byte) error {
	var v exitJSON
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	e.Exit = corral.Exit{Code: -1, Reason: v.Reason, StartedAt: v.StartedAt, EndedAt: v.EndedAt, Orphans: v.Orphans, Refused: v.Refused}
	if v.ExitCode != nil {
		e.Code = *v.ExitCode
	}
	if v.Signal != nil {
		e.Signal = corral.Signal(*v.Signal)
	}
	return nil
}

func exitOf(e *corral.Exit) *Exit {
	if e == nil {
		return nil
	}
	return &Exit{*e}
}
