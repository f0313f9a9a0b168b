package api

// Usage is the last hour of something, as the gateway measured it: at each time of At, a
// value of each series.
type Usage struct {
	Of    string  `json:"of"`           // gateway, sandbox:NAME or node:ID
	Every float64 `json:"everySeconds"` // between two measurements; while there was nothing to measure, there are none
	At    []int64 `json:"at"`           // Unix seconds
	// Series by name. Of the gateway: running (sessions), begun, failed, requests and
	// errors (a second), latency (milliseconds that requests took on average which wait
	// for nothing). Of a sandbox: cpu (processors), memory (bytes), pids. Of a node: load
	// (processes), memory, disk (bytes), processes.
	Series map[string][]float64 `json:"series"`
}

// What a Usage is of.
const (
	UsageOfGateway = "gateway"
	UsageOfSandbox = "sandbox:" // and its name
	UsageOfNode    = "node:"    // and its ID
)
