// Package doctor checks what Corral needs of a machine and of a container engine. A
// check changes nothing. It reports what it found, what that means for commands, and
// what to do about it.
package doctor

import (
	"fmt"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/words"
)

type (
	// A Finding is what one check of corral doctor found.
	Finding = api.Finding
	// A Severity says how much a finding matters.
	Severity = api.Severity
)

// The severities.
const (
	OK   = api.SeverityOK
	Warn = api.SeverityWarn // it works, with a restriction or a risk
	Fail = api.SeverityFail // something does not work
)

// Fine is a finding without a problem.
func Fine(name, format string, args ...any) Finding {
	return Finding{Name: name, Status: OK, Summary: fmt.Sprintf(format, args...)}
}

// Failed is the finding of a check that failed with err; the error has the summary and the
// fix.
func Failed(name string, err error, meaning string) Finding {
	return Finding{Name: name, Status: Fail, Summary: words.OneLine(err.Error()), Meaning: meaning, Fix: words.OneLine(corral.Hint(err))}
}
