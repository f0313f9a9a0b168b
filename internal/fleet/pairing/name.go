package pairing

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/corral-exec/corral"
)

const (
	maxName     = 63
	defaultName = "node"
)

// suggested makes a valid name of a node's name for itself.
func suggested(s string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(s) {
		switch {
		case b.Len() == maxName:
		case nameRune(r):
			b.WriteRune(r)
		case !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	name := strings.Trim(b.String(), "-._")
	if name == "" || confusing(name) {
		name = strings.Trim((defaultName + "-" + name)[:min(maxName, len(defaultName)+1+len(name))], "-._")
	}
	return name
}

func nameRune(r rune) bool {
	return 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '.' || r == '_' || r == '-'
}

// confusing reports whether a name could be mistaken for an address or an id.
func confusing(name string) bool {
	_, err := netip.ParseAddr(name)
	return err == nil || isID(name)
}

func validateName(name string) error {
	if name == "" || len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return !nameRune(r) }) ||
		strings.Trim(name, "-._") != name {
		return corral.Errorf(corral.ErrInvalid, "use 1 to 63 of a-z, 0-9, '.', '_' and '-', with a letter or digit at both ends", "%s is no name of a node", quote(name))
	}
	if confusing(name) {
		return corral.Errorf(corral.ErrInvalid, "choose another name", "%s looks like an address or an id, and is no name of a node", quote(name))
	}
	return nil
}

// holder returns the id of another node that prevents the node self from having a name;
// empty if there is none.
func (s *state) holder(name, self string) string {
	for id, n := range s.nodes {
		if id != self && n.active() && (n.Name == name || strings.HasPrefix(id, name)) {
			return id
		}
	}
	return ""
}

// unique makes a name that is free for the node self.
func (s *state) unique(name, self string) string {
	unique := name
	for i := 2; s.holder(unique, self) != ""; i++ {
		end := "-" + strconv.Itoa(i)
		unique = strings.TrimRight(name[:min(len(name), maxName-len(end))], "-._") + end
	}
	return unique
}
