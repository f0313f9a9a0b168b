package policy

import (
	"slices"
	"strings"

	"github.com/corral-exec/corral"
)

// TableRows is how many rows the tables of carriers and of wrappers have.
func TableRows() int { return len(carrierTable) + len(gitTable) + len(wrapperNames()) }

func wrapperNames() []string {
	var names []string
	for name := range wrappers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// WithoutRow has the tables be wrong while f runs: one row of them is not there.
// programs are those that it is about.
func WithoutRow(i int, f func(row string, programs []string)) {
	rows := slices.Concat(carrierTable, gitTable)
	if i < len(rows) {
		row := rows[i]
		defer func() { makeCarriers(slices.Concat(carrierTable, gitTable)) }()
		makeCarriers(slices.Delete(rows, i, i+1))
		var programs []string
		for names := range strings.SplitSeq(row.programs, ",") {
			programs = append(programs, strings.Fields(names)[0])
		}
		f(row.programs+": "+row.options, programs)
		return
	}
	name := wrapperNames()[i-len(rows)]
	old := wrappers[name]
	delete(wrappers, name)
	defer func() { wrappers[name] = old }()
	f(name, strings.Fields(name)[:1])
}

// IsLeaf reports whether it is known what a program runs.
func IsLeaf(name string) bool { return leaves[name] != nil }

// DomainIfAllowed is the domain of a command if policy allowed, by mistake, all of
// its programs that the rules are about.
func DomainIfAllowed(req Request, rules Rules, view View) *corral.Domain {
	j := &judge{reading: read(req, view), rules: rules}
	d := Decision{Security: rules.Security, Run: &Pinned{Args: append(slices.Clone(req.Shell), req.Command)}}
	for _, c := range j.calls {
		for _, seg := range c.segments {
			seg.Inline, seg.Unbound, seg.Refused = "", "", ""
			if !j.allowedSegment(seg) && !seg.wrapper || seg.RealPath == "" {
				seg.By, seg.RealPath = byBuiltin, "" // not of the domain
			}
		}
	}
	e := &Enforcement{Setting: rules.Enforce}
	j.domain(&d, e)
	return e.Domain
}
