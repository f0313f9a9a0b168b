package api

import (
	"time"

	"github.com/corral-exec/corral"
)

// Key describes a key of a gateway: its owner and rights. It does not have the secret.
type Key struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Role string `json:"role"` // viewer, agent, approver, operator or admin
	// Agents are patterns (* is any text, ? any character) of the agents that it may
	// act for; other agents do not exist for it. Empty: all agents.
	Agents []string `json:"agents"`
	// Hosts are the hosts that it may act on: sandbox, gateway, node. Empty: all.
	Hosts []string `json:"hosts"`
	Quota
	CreatedAt time.Time  `json:"createdAt"`
	ExpiresAt *time.Time `json:"expiresAt"`
	// LastUsed is the time of its last request in this life of the gateway; nil: none.
	LastUsed *time.Time `json:"lastUsedAt,omitempty"`
}

// A Quota bounds what the agents of a key may have at a time, all together. 0 means
// only the limits for everybody.
type Quota struct {
	MaxSessions int `json:"maxSessions"` // running ones
	// Sandboxes with a container on the gateway's machine, and the sum of their limits:
	// Memory in bytes, and processors. Containers on nodes do not count.
	MaxSandboxes int     `json:"maxSandboxes"`
	MaxMemory    int64   `json:"maxMemory"`
	MaxCPUs      float64 `json:"maxCpus"`
	// Rate bounds the requests of the key itself, per second and in a burst.
	Rate float64 `json:"rate"`
}

// Self describes the rights of the caller's own key.
type Self struct {
	Name   string   `json:"name"`
	Role   string   `json:"role"`
	Rights []string `json:"rights"` // of the role
	Agents []string `json:"agents"`
	Hosts  []string `json:"hosts"`
	Quota
}

// SignedIn is the answer to a browser that signs in to the console. The browser also
// gets a cookie, and needs both.
type SignedIn struct {
	Token     string    `json:"token"` // for the header HeaderConsole
	ExpiresAt time.Time `json:"expiresAt"`
}

// ConsoleLink signs a browser in once. The part after #link= in the URL is a secret,
// which POST /console/login accepts as a key.
type ConsoleLink struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// Resource tells clients of MCP how to authenticate: OAuth 2.0 Protected Resource
// Metadata (RFC 9728). The gateway's own keys are the only tokens; no server issues
// them.
type Resource struct {
	Resource string   `json:"resource"`
	Name     string   `json:"resource_name"`
	Methods  []string `json:"bearer_methods_supported"`
}

// NewKey is the body of a request to make a key.
type NewKey struct {
	Name   string   `json:"name"`
	Role   string   `json:"role"`
	Agents []string `json:"agents,omitempty"`
	Hosts  []string `json:"hosts,omitempty"`
	Quota
	TTL Duration `json:"ttl,omitempty"` // 0: it does not expire
}

// MadeKey is a new key with its secret, which is returned only here.
type MadeKey struct {
	Secret string `json:"secret"`
	Key
}

// Keys is the answer of the list.
type Keys struct {
	Keys []Key `json:"keys"`
}

// TooMany is an ErrTooMany for a caller that asks too often. It has the time to wait.
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
