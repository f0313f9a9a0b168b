package fabric

import (
	"strconv"
	"strings"

	"github.com/corral-exec/corral"
)

// Subjects. See the package's doc for who publishes on which.
const (
	prefixNode    = "fab.n."
	prefixGateway = "fab.gw."
	prefixHello   = "fab.hb."

	// AllHellos is what a gateway hears nodes on.
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

// RequestSubject is where a node takes requests, PartSubject where it takes
// what does not fit into one, and WhoSubject where it is asked for a hello.
func RequestSubject(node string) string { return prefixNode + node + ".req" }

// PartSubject takes the rest of a large request.
func PartSubject(node string) string { return prefixNode + node + ".part" }

// WhoSubject is where a node is asked for a hello.
func WhoSubject(node string) string { return prefixNode + node + ".who" }

// NodeSubjects is all that is addressed to a node.
func NodeSubjects(node string) string { return prefixNode + node + ".>" }

// HelloSubject is where a node says that it lives.
func HelloSubject(node string) string { return prefixHello + node }

// GatewaySubjects is all that is addressed to one life of a gateway.
func GatewaySubjects(life string) string { return prefixGateway + life + ".>" }

// FromNode is all that a node may say to gateways, of whatever life.
func FromNode(node string) string { return prefixGateway + "*." + node + ".>" }

// Kind says what a message to a gateway is.
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

// ParseToGateway is the reverse of ToGateway, for a life that is known.
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

// ParseHello is the node that a hello came from.
func ParseHello(subject string) (node string, ok bool) {
	node, ok = strings.CutPrefix(subject, prefixHello)
	return node, ok && validateToken(node) == nil
}

// PairSubjects are the only ones that a connection may use whose key belongs
// to no node: it asks on one and is answered on the other. Nodes may use theirs
// as well, to ask whether they are still nodes.
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
