// Package config reads Corral's configuration file, which is JSON5, and says
// what applies to an agent and where that is written.
//
// A key counts from the entry of the agent in agents.list; without one there,
// from agents.defaults; then from the top of the file; and then there is the
// built-in default. Each value of an [Agent] knows its file, line and key.
// What protects is not replaced but added up: rules, the lists of tools, and
// the gates of elevated.
//
// Every key is declared once, as a field of [Agent] or [Config]: the published
// schema ([Schema]), the checks, the defaults and the table in docs/reference/config.md
// are made from these.
//
// A file with a mistake is an error that names every one of them, with line
// and key. Nothing is half in force: [Load] gives nothing, and [Live], which
// follows a file while a program runs, closes until it is mended.
package config
