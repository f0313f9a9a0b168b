package api

import "time"

// Headers.
const (
	HeaderAgent     = "Corral-Agent"   // whose sessions; DefaultAgent if absent
	HeaderSender    = "Corral-Sender"  // PROVIDER:ID of who asks an agent for something
	HeaderKey       = "Corral-Key"     // by whose key it is done; the gateway sets it, whatever a client sends
	HeaderSession   = "Corral-Session" // the key of the conversation, for sandboxes that each has of its own
	HeaderStarted   = "Corral-Started" // of a session: when the one that is meant was started; another that has its ID now is not found
	HeaderModel     = "Corral-Model"   // that calls a tool, such as openai/gpt-5.2
	HeaderFile      = "Corral-File"    // of a file's content: what it is, as JSON
	HeaderTotals    = "Corral-Totals"  // trailer of an archive: what is in it, as JSON
	HeaderError     = "Corral-Error"   // trailer of an archive that is not whole: why, as JSON
	HeaderConsole   = "Corral-Console" // beside the console's cookie: the token of the sign-in
	HeaderRequestID = "X-Request-Id"   // taken from the request if it is sane, and always in the answer
)

// AllAgents, as ?agent=*, asks for the sessions or events of every agent.
const AllAgents = "*"

// Media types.
const (
	TypeJSON   = "application/json"
	TypeLog    = "application/vnd.corral.log" // a sequence of frames
	TypeBytes  = "application/octet-stream"
	TypeTar    = "application/x-tar"
	TypeEvents = "text/event-stream"
	TypeLines  = "application/x-ndjson" // a JSON object a line
)

// AttachProtocol is the WebSocket subprotocol of attach.
const AttachProtocol = "corral.attach.v1"

// TunnelProtocol is what a connection to a port of a sandbox is upgraded to: the bytes of
// the TCP connection, and its end each way.
const TunnelProtocol = "tcp"

// Names of files in the state directory.
const (
	SocketFile = "gateway.sock"
	TokenFile  = "gateway.token"
	KeysFile   = "keys.json"    // hashes of the keys of others
	SignInFile = "console.json" // hashes of what browsers show that are signed in to the console
)

// Limits.
const (
	MaxBody   = 4 << 20          // bytes of a JSON body
	MaxHeader = 32 << 10         // bytes of a request's headers
	MaxWait   = 10 * time.Minute // of one wait request
	MaxInput  = 1 << 20          // bytes of one message to attach
)

// EventMissed is the type of the server-sent event that says that events were
// dropped before they could be sent. Its data is Missed.
const EventMissed = "corral.missed"
