package fabric

import (
	"strconv"
	"strings"

	"github.com/corral-exec/corral"
)

// Subjects. The package doc says who publishes on which.
const (
	prefixNode    = "fab.n."
	prefixGateway = "fab.gw."
	prefixHello   = "fab.hb."

	// AllHellos are the hellos of all nodes, for a gateway.
	AllHellos = prefixHello + "*"
)

const maxNodeID = 64

// ValidateNodeID reports whether id can name a node. It is one token of a
// subject, so it has no dot, no blank and no wildcard.
func ValidateNodeID(id string) error {
	if err := validateToken(id); err != nil {
		return corral.Errorf(corral.ErrInvalid, "use 1 to 64 letters, digits, '_' or '-'", "%q is no id of a node", clip(id, maxNodeID+1))
	}
	return nil
}

// RequestSubject receives a node's requests, PartSubject the rest of large ones, and
// WhoSubject asks the node for a hello.
func RequestSubject(node string) string { return prefixNode + node + ".req" }

// PartSubject takes the rest of a large request.
func PartSubject(node string) string { return prefixNode + node + ".part" }

// WhoSubject asks a node for a hello.
func WhoSubject(node string) string { return prefixNode + node + ".who" }

// NodeSubjects are all subjects that a node receives.
func NodeSubjects(node string) string { return prefixNode + node + ".>" }

// HelloSubject carries the hellos of a node.
func HelloSubject(node string) string { return prefixHello + node }

// GatewaySubjects are all subjects that one life of a gateway receives.
func GatewaySubjects(life string) string { return prefixGateway + life + ".>" }

// FromNode are all subjects on which a node may send to gateways.
func FromNode(node string) string { return prefixGateway + "*." + node + ".>" }

// Kind is the kind of a message to a gateway.
type Kind byte

const (
	KindAnswer Kind = 'a' // to the request of that number
	KindOutput Kind = 'o' // for the reader of that number
	KindInput  Kind = 'w' // about the write of that number
)

// ToGateway is the subject of a message to a life of a gateway.
func ToGateway(life, node string, kind Kind, n uint64) string {
	return prefixGateway + life + "." + node + "." + string(rune(kind)) + "." + strconv.FormatUint(n, 10)
}

// ParseToGateway is the reverse of ToGateway, for a known life.
func ParseToGateway(life, subject string) (node string, kind Kind, n uint64, ok bool) {
	rest, ok := strings.CutPrefix(subject, prefixGateway+life+".")
	if !ok {
		return "", 0, 0, false
	}
	node, rest, ok = strings.Cut(rest, ".")
	if !ok || validateToken(node) != nil || len(rest) < 3 || rest[1] != '.' {
		return "", 0, 0, false
	}
	n, err := strconv.ParseUint(rest[2:], 10, 64)
	if err != nil {
		return "", 0, 0, false
	}
	switch kind = Kind(rest[0]); kind {
	case KindAnswer, KindOutput, KindInput:
		return node, kind, n, true
	}
	return "", 0, 0, false
}

// ParseHello returns the node that sent a hello.
func ParseHello(subject string) (node string, ok bool) {
	node, ok = strings.CutPrefix(subject, prefixHello)
	return node, ok && validateToken(node) == nil
}

// PairSubjects are the only subjects for a key that belongs to no node: it asks on one
// and gets the answer on the other. Nodes may use theirs as well, to ask whether they
// are still nodes.
func PairSubjects(nkey string) (ask, answer string) { return "fab.pair." + nkey, "fab.paired." + nkey }

func validateToken(s string) error {
	if s == "" || len(s) > maxNodeID {
		return ErrMalformed
	}
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-') {
			return ErrMalformed
		}
	}
	return nil
}

func clip(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}
