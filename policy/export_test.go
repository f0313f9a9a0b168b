package policy

import (
	"slices"

	"github.com/corral-exec/corral"
)

// IsLeaf reports whether the table knows which programs a program runs.
func IsLeaf(name string) bool { return leaves()[name] != nil }

// DomainIfAllowed is the domain that a command would have if the policy allowed, by
// mistake, all of its programs that the rules name.
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
