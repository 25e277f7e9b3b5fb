// Package packing repeats the experiments of "Packing messages as a tool for boosting the performance of
// total ordering protocols" (Friedman and van Renesse, 1995) in virtual time: six protocols on one Ethernet,
// with bursts of one-byte messages, from all processes or from one.
//
//	totem   a token goes round; its holder sends a packet for each buffered message
//	tomfc   totem with packing: the holder sends one packed message
//	total   a token that goes to those that request it; the holder packs its buffered messages
//	dynord  processes broadcast at once; an orderer broadcasts the order
//	dynseq  processes send to a sequencer, which broadcasts
//	dysfc   dynseq with packing: a process packs its buffered messages each millisecond
//
// # The model
//
// The bus carries one packet at a time, at 10 Mbit/s. If k stations wait for it, the one that gets it has
// lost 1/A - 1 slots of 51.2 us on average, with A = (1-1/k)^(k-1) (Metcalfe and Boggs). A packet occupies
// the CPU of its sender for SendCost and of each receiver for ReceiveCost, and a message that is handed over
// for MessageCost. A receiver holds Buffer packets that it has not taken; the next one is lost. The protocols
// have no retransmission, since the paper's layers below have it: a run with a loss has ended, and the
// protocol does not sustain that burst.
//
// The paper gives no costs. The defaults fit its statement that a message takes a little more than a
// millisecond from user to user, and that a header is substantial. Only ratios are meant.
package packing
