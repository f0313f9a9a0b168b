package policy

import "slices"

// Security says what may run on the gateway and on nodes. The set is closed, and
// ordered from strict to lax.
type Security string

const (
	SecurityDeny      Security = "deny"
	SecurityAllowlist Security = "allowlist"
	SecurityFull      Security = "full"
)

// Ask says when a command on the gateway or a node needs an approval. The set is
// closed, and ordered from lax to strict.
type Ask string

const (
	AskOff    Ask = "off"
	AskOnMiss Ask = "on-miss" // when no rule allows it
	AskAlways Ask = "always"
)

// Securities and Asks are the closed sets, each from strict to lax.
var (
	Securities = []Security{SecurityDeny, SecurityAllowlist, SecurityFull}
	Asks       = []Ask{AskAlways, AskOnMiss, AskOff}
)

// The values that apply if nothing is configured.
const (
	DefaultSecurity    = SecurityAllowlist // on the gateway and on nodes
	DefaultAsk         = AskOnMiss
	DefaultAskFallback = SecurityDeny
)

// Stricter returns the stricter of two values of a set that is ordered from strict
// to lax. An empty value is not set: the other one counts.
func Stricter[T ~string](set []T, a, b T) T {
	for _, v := range set {
		if v == a || v == b {
			return v
		}
	}
	return ""
}

// Valid reports whether s is one of the set.
func (s Security) Valid() bool { return slices.Contains(Securities, s) }

// Valid reports whether a is one of the set.
func (a Ask) Valid() bool { return slices.Contains(Asks, a) }
