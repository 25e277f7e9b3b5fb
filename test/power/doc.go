// Package power runs a cluster of server processes on a disk that forgets what was not synced (package lossy),
// takes the power of all servers away in the middle of work, and compares.
package power
