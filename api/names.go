package api

import "time"

// Headers.
const (
	HeaderAgent      = "Corral-Agent"           // the agent of sessions; DefaultAgent if absent
	HeaderSender     = "Corral-Sender"          // PROVIDER:ID of the person who asks an agent for something
	HeaderKey        = "Corral-Key"             // the key of the request; the gateway sets it and ignores a client's value
	HeaderSession    = "Corral-Session"         // the key of the conversation, if each has a sandbox of its own
	HeaderStarted    = "Corral-Started"         // start time of the session that is meant; a later session with its ID is not found
	HeaderModel      = "Corral-Model"           // the model that calls a tool, such as openai/gpt-5.2
	HeaderFile       = "Corral-File"            // of a file's content: its description, as JSON
	HeaderAttributes = "Corral-File-Attributes" // of a file's content that is written: its extended attributes, as JSON
	HeaderTotals     = "Corral-Totals"          // trailer of an archive: its totals, as JSON
	HeaderError      = "Corral-Error"           // trailer of an incomplete archive: the error, as JSON
	HeaderConsole    = "Corral-Console"         // beside the console's cookie: the token of the sign-in
	HeaderRequestID  = "X-Request-Id"           // from the request if valid, and always in the answer
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

// TunnelProtocol is the upgrade of a connection to a port of a sandbox: it carries the
// bytes of the TCP connection, and its end in each direction.
const TunnelProtocol = "tcp"

// HandOverProtocol is the same over the Unix socket, for a client that has a connection to
// join with the port: it sends that connection itself (a byte with SCM_RIGHTS), and the
// gateway moves the bytes directly. Either side ends it by closing the socket.
const HandOverProtocol = "tcp-handover"

// Names of files in the state directory.
const (
	SocketFile = "gateway.sock"
	TokenFile  = "gateway.token"
	KeysFile   = "keys.json"    // hashes of further keys
	SignInFile = "console.json" // hashes of the sign-ins of browsers at the console
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
