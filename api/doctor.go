package api

import "time"

// A Finding is what one check of corral doctor found.
type Finding struct {
	Name    string   `json:"name"`
	Status  Severity `json:"status"`
	Summary string   `json:"summary"`           // what is so
	Meaning string   `json:"meaning,omitempty"` // what that means for commands
	Fix     string   `json:"fix,omitempty"`     // what to do about it
}

// A Severity says how much a finding matters.
type Severity string

// The severities.
const (
	SeverityOK   Severity = "ok"
	SeverityWarn Severity = "warn" // it works, with a restriction or a risk
	SeverityFail Severity = "fail" // something does not work
)

// Findings is the answer of doctor.
type Findings struct {
	At       time.Time `json:"at"` // when it was looked
	Findings []Finding `json:"findings"`
}
