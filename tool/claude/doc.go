// Package claude does the work of Claude's managed agents that is bound for a
// self-hosted environment. It takes sessions from the environment's queue, over
// connections that it opens itself, and runs each call of a tool (bash, read, write,
// edit, glob, grep) as a command on an Executor: for the program corral-worker-claude
// that is a gateway, with its policy, its sandboxes and its record.
//
// The queue, the lease of a session and its events are the SDK's
// (github.com/anthropics/anthropic-sdk-go). The SDK's own tools run on the worker's
// machine; only their names and schemas are used. Memory stores are not mounted: a
// session that has some is given back with an error.
package claude
