// Package programs knows what programs do with their arguments, as far as package
// policy needs it: which program a wrapper runs ([Peel]), which file an interpreter
// executes ([ScriptOperand]), which options carry a command or code ([Carrier],
// [InlineCode]), which uses of a program read standard input alone
// ([SafeBin.Check]), and which variables change nothing ([PlainVariable]).
//
// All of it is a function of the words of a command. The package reads no files and
// decides nothing; package policy decides.
//
// Programs are in tables. To add one, add a row: a wrapper to wrapper_table.go, an
// interpreter to script_table.go, options that run something to carrier_table.go.
// The tables in docs/reference/policy.md are written from these.
package programs
