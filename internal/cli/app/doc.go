// Package app has what all commands of corral share: an App is one run of the program, with
// its streams, its flags and what they say; it finds the gateway and the configuration,
// prints tables and JSON, and knows what completes words, what an error looks like and
// which exit code it becomes.
//
// The commands are in packages beside this one, a noun each; they have methods on a type of
// their own that embeds the App.
package app
