package api

import "time"

// NodeState says whether a node can be used.
type NodeState string

// The states of a node.
const (
	NodeOnline  NodeState = "online"
	NodeOffline NodeState = "offline"
	NodeRevoked NodeState = "revoked" // it was a node
	NodeUnknown NodeState = "unknown" // no connection now: it is made when needed
)

// NodeKind is how the gateway reaches a node.
type NodeKind string

// The kinds of nodes.
const (
	NodePaired NodeKind = "node" // it dials in
	NodeSSH    NodeKind = "ssh"  // by SSH, without Corral on it: the configuration names it
)

// Node is an approved machine, or an SSH host that the configuration names.
type Node struct {
	ID     string            `json:"id"`
	Kind   NodeKind          `json:"kind"`
	Name   string            `json:"name"` // of an SSH host its name in commands: ssh:HOST
	State  NodeState         `json:"state"`
	Labels map[string]string `json:"labels,omitempty"`

	// Addresses are those that the gateway saw, the latest first.
	Addresses []string `json:"addresses,omitempty"`
	// Heard is the time of the last message in this life of the gateway.
	Heard time.Time `json:"lastHeard,omitzero"`
	// Problem says why a node that is online cannot be used as it should. Empty: there is none.
	Problem string `json:"problem,omitempty"`

	NodeAbout
	// Load is what it said last of how busy it is; nil: nothing, to this life of the gateway.
	Load *NodeLoad `json:"load,omitempty"`

	Key        string    `json:"key,omitempty"` // the public key of a paired node
	PairedAt   time.Time `json:"pairedAt,omitzero"`
	ApprovedBy string    `json:"approvedBy,omitempty"`
	RevokedAt  time.Time `json:"revokedAt,omitzero"`
	RevokedBy  string    `json:"revokedBy,omitempty"`
}

// NodeAbout is a machine's description of itself.
type NodeAbout struct {
	Host     string   `json:"host,omitempty"`
	OS       string   `json:"os,omitempty"`
	Arch     string   `json:"arch,omitempty"`
	Version  string   `json:"version,omitempty"` // of Corral
	Features []string `json:"features,omitempty"`
}

// NodeLoad is how busy a machine says that it is. What is 0 it did not say.
type NodeLoad struct {
	CPUs       int     `json:"cpus"`
	Average    float64 `json:"average"`    // load average of the last minute, of all processors
	Running    int     `json:"running"`    // processes of commands
	Processes  int     `json:"processes"`  // of the whole machine
	Memory     int64   `json:"memory"`     // bytes
	MemoryUsed int64   `json:"memoryUsed"` // bytes
	Disk       int64   `json:"disk"`       // bytes of the root file system
	DiskUsed   int64   `json:"diskUsed"`
}

// Nodes is the answer of the list.
type Nodes struct {
	Listen  []string `json:"listen"`  // addresses, those for WebSockets as wss://ADDRESS:PORT
	Pending int      `json:"pending"` // machines that ask to be nodes
	Nodes   []Node   `json:"nodes"`   // by name, revoked ones at the end
}

// NodeChange is the body of a change of a node. Change one thing at a time.
type NodeChange struct {
	Name string `json:"name,omitempty"`
	// Labels that are null are removed; other labels stay.
	Labels  map[string]*string `json:"labels,omitempty"`
	Revoked bool               `json:"revoked,omitempty"`
	By      string             `json:"by,omitempty"` // the person who revokes it
}

// NodeRequest is a machine that asks to be a node.
type NodeRequest struct {
	ID    string `json:"id"`             // of the future node
	Code  string `json:"code,omitempty"` // the machine shows the same one
	Key   string `json:"key"`
	State string `json:"state"` // pending, approved or rejected
	Name  string `json:"name"`  // the node's name, unless the approver chooses another
	From  string `json:"from,omitempty"`

	NodeAbout
	// Claims are the addresses that the machine claims.
	Claims []string `json:"claims,omitempty"`

	// SameName is the ID of another node that has the wanted name.
	SameName string `json:"sameName,omitempty"`
	// RevokedAt is when this very key was revoked.
	RevokedAt time.Time `json:"revokedAt,omitzero"`

	AskedAt    time.Time `json:"askedAt"`
	ExpiresAt  time.Time `json:"expiresAt"`
	AnsweredBy string    `json:"answeredBy,omitempty"`
	AnsweredAt time.Time `json:"answeredAt,omitzero"`
}

// NodeRequests is the answer of the list.
type NodeRequests struct {
	Requests []NodeRequest `json:"requests"`
}

// The decisions about a request.
const (
	NodeApprove = "approve"
	NodeReject  = "reject"
)

// NodeAnswer is the body of an answer to a request.
type NodeAnswer struct {
	Decision string `json:"decision"`
	// Name and Labels are set for an approved node. Empty: the machine's suggestion,
	// and no labels.
	Name   string            `json:"name,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	By     string            `json:"by,omitempty"` // the person who answers, for people
}

// NodeJoin is the data that a machine needs to ask. It is no secret.
type NodeJoin struct {
	Line    string   `json:"line"`
	Hosts   []string `json:"hosts"`   // HOST:PORT each, from the line
	Command string   `json:"command"` // to run on the machine
	// WebSocket is the same for a machine that connects by WebSocket, if the
	// gateway listens in both ways.
	WebSocket *NodeJoin `json:"webSocket,omitempty"`
}

// NodeToken describes a setup token: an approval in advance.
type NodeToken struct {
	ID        string            `json:"id"`
	Left      int               `json:"left"` // machines that it can still pair
	Labels    map[string]string `json:"labels,omitempty"`
	By        string            `json:"by,omitempty"`
	CreatedAt time.Time         `json:"createdAt"`
	ExpiresAt time.Time         `json:"expiresAt"`
}

// NodeTokens is the answer of the list.
type NodeTokens struct {
	Tokens []NodeToken `json:"tokens"`
}

// NewNodeToken is the body of a request to make a setup token.
type NewNodeToken struct {
	TTL    Duration          `json:"ttl,omitempty"`  // 0: DefaultTokenTTL
	Uses   int               `json:"uses,omitempty"` // 0: one
	Labels map[string]string `json:"labels,omitempty"`
	By     string            `json:"by,omitempty"`
}

// DefaultTokenTTL is how long a setup token is valid by default.
const DefaultTokenTTL = time.Hour

// MadeNodeToken is a new setup token with the secret, which is returned only here.
type MadeNodeToken struct {
	Token string `json:"token"`
	NodeToken
}
