package access

import (
	"slices"
	"strings"

	"github.com/corral-exec/corral"
)

// A Right is what one route asks for.
type Right string

// The rights.
const (
	Public    Right = "public"    // no key at all: it says nothing that is worth one
	Read      Right = "read"      // look at sessions, output, files, approvals, nodes
	Run       Right = "run"       // start commands, send them input, signal and remove them, write files
	Approve   Right = "approve"   // answer approvals
	Operate   Right = "operate"   // sandboxes, nodes, rules and what is set for an agent
	Keys      Right = "keys"      // make and revoke keys
	Configure Right = "configure" // change the configuration file
)

// A Role is a set of rights.
type Role string

// The roles.
const (
	Viewer   Role = "viewer"
	Agent    Role = "agent"
	Approver Role = "approver"
	Operator Role = "operator"
	Admin    Role = "admin"
)

// Roles are all of them.
var Roles = []Role{Viewer, Agent, Approver, Operator, Admin}

var rights = map[Role][]Right{
	Viewer:   {Read},
	Agent:    {Read, Run},
	Approver: {Read, Approve},
	Operator: {Read, Run, Approve, Operate},
	Admin:    {Read, Run, Approve, Operate, Keys, Configure},
}

// Has reports whether a role has a right.
func (r Role) Has(what Right) bool { return what == Public || slices.Contains(rights[r], what) }

// Rights are those of a role.
func (r Role) Rights() []string {
	names := make([]string, len(rights[r]))
	for i, right := range rights[r] {
		names[i] = string(right)
	}
	return names
}

// With lists the roles that have a right.
func With(what Right) (names []string) {
	for _, r := range Roles {
		if r.Has(what) {
			names = append(names, string(r))
		}
	}
	return names
}

// ParseRole reads the name of a role.
func ParseRole(text string) (Role, error) {
	if r := Role(text); slices.Contains(Roles, r) {
		return r, nil
	}
	return "", corral.Errorf(corral.ErrInvalid, "use one of "+strings.Join(With(Public), ", "), "there is no role %.80q", text)
}
