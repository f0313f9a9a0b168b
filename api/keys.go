package api

import (
	"time"

	"github.com/corral-exec/corral"
)

// Key is what is known of a key of a gateway: who may use it for what. Its secret is not
// among it.
type Key struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Role string `json:"role"` // viewer, agent, approver, operator or admin
	// Agents are patterns (* is any text, ? any character) of the agents that it may
	// act for; those of others do not exist for it. Empty: all agents.
	Agents []string `json:"agents"`
	// Hosts are those that its commands may run on: sandbox, gateway, node. Empty: all.
	Hosts []string `json:"hosts"`
	Quota
	CreatedAt time.Time  `json:"createdAt"`
	ExpiresAt *time.Time `json:"expiresAt"`
	// LastUsed is when this life of the gateway took the last request by it; nil: none.
	LastUsed *time.Time `json:"lastUsedAt,omitempty"`
}

// A Quota is how much the agents of a key may have at a time, all together. 0 is no limit
// but those for all.
type Quota struct {
	MaxSessions int `json:"maxSessions"` // that run
	// Sandboxes that have a container, and what those may use together: Memory in bytes,
	// and processors.
	MaxSandboxes int     `json:"maxSandboxes"`
	MaxMemory    int64   `json:"maxMemory"`
	MaxCPUs      float64 `json:"maxCpus"`
	// Rate is how many requests a second the key itself may make, as many of them at once.
	Rate float64 `json:"rate"`
}

// Self is what the caller's own key allows.
type Self struct {
	Name   string   `json:"name"`
	Role   string   `json:"role"`
	Rights []string `json:"rights"` // of the role
	Agents []string `json:"agents"`
	Hosts  []string `json:"hosts"`
	Quota
}

// SignedIn is the answer to a browser that signs in to the console. The other half of what
// it needs is a cookie.
type SignedIn struct {
	Token     string    `json:"token"` // for the header HeaderConsole
	ExpiresAt time.Time `json:"expiresAt"`
}

// ConsoleLink is what signs a browser in once. What is behind #link= in the URL is a
// secret, which POST /console/login takes as a key.
type ConsoleLink struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// Resource says to clients of MCP how they are let in: OAuth 2.0 Protected Resource
// Metadata (RFC 9728). The gateway's own keys are the only tokens; it names no server
// that gives them out.
type Resource struct {
	Resource string   `json:"resource"`
	Name     string   `json:"resource_name"`
	Methods  []string `json:"bearer_methods_supported"`
}

// NewKey is the body of a key to make.
type NewKey struct {
	Name   string   `json:"name"`
	Role   string   `json:"role"`
	Agents []string `json:"agents,omitempty"`
	Hosts  []string `json:"hosts,omitempty"`
	Quota
	TTL Duration `json:"ttl,omitempty"` // 0: it does not expire
}

// MadeKey is a key that was made, and its secret, which is told this once.
type MadeKey struct {
	Secret string `json:"secret"`
	Key
}

// Keys is the answer of the list of them.
type Keys struct {
	Keys []Key `json:"keys"`
}

// TooMany is an ErrTooMany for a caller that asks too often, with when to come back.
type TooMany struct {
	After time.Duration
	err   *corral.Error
}

func (e *TooMany) Error() string { return e.err.Text }

// Unwrap is for errors.Is and corral.Hint.
func (e *TooMany) Unwrap() error { return e.err }

// ComeBack makes a TooMany.
func ComeBack(after time.Duration, format string, args ...any) *TooMany {
	return &TooMany{after, corral.Errorf(ErrTooMany, "send fewer; come back after the seconds in Retry-After", format, args...)}
}
