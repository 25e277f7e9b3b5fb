//go:build verbs

package verbs

/*
#include <infiniband/verbs.h>

// expected_psn reads the number of the packet that a queue pair expects next. It returns 0, or an errno.
static int expected_psn(struct ibv_qp *qp, uint32_t *psn) {
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr i;
	int r = ibv_query_qp(qp, &a, IBV_QP_RQ_PSN, &i);
	if (!r) *psn = a.rq_psn & 0xffffff;
	return r;
}
*/
import "C"

import "github.com/globalfs/globalfs/pkg/fabric"

// expected returns the number of the packet that the pair expects next.
func (p *pair) expected() (psn C.uint32_t, err error) {
	err = failed("query a queue pair", C.expected_psn(p.qp, &psn))
	return psn, err
}

// Revoke implements fabric.Endpoint. After an error the peer may still have the rights.
func (e *endpoint) Revoke(id fabric.RegionID, peer fabric.NodeID, rights fabric.Rights) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	r, err := e.registered(id)
	if err != nil {
		return err
	}
	r.rights[peer] &^= rights
	s := r.served[peer]
	if s == nil || !s.connected || s.rights&rights == 0 {
		return nil
	}
	return e.withdraw(s)
}

// withdraw gives a connected queue pair the remaining rights of its peer. A change of the access flags alone
// would not be enough: the interface may have checked a packet before the change and execute it afterwards.
//
//  1. The access flags change. The next operation without a right is refused, and its initiator is informed.
//  2. The reset ends with the execution of the packet that was checked before. All other packets are dropped.
//  3. The queue pair is connected again as it was. It expects the packet that it expected in step 1, so that
//     the peer sends the dropped packets again, and does not notice the reset if it has the right.
//
// The packet of step 2 may have been executed after its number was read. The initiator then waits for an
// answer that never comes, and loses its operations after Config.Timeout.
func (e *endpoint) withdraw(s *served) error {
	if s.pair.setAccess(flagsOf(s.region.rights[s.peer])) != nil {
		return s.disconnect() // the queue pair is in the error state: its initiator has to reset it anyway
	}
	psn, unknown := s.pair.expected()
	e.drain() // some interfaces drop the results of a queue pair that is reset
	if !s.connected {
		return nil // the peer has flooded this node with notes
	}
	if err := s.disconnect(); err != nil {
		return err
	}
	e.drain() // other interfaces keep them: connect reuses the buffers of the notes
	if unknown != nil {
		return nil
	}
	own, to := s.own, s.to
	to.psn = psn
	if s.connect(&own, &to) != nil {
		return s.disconnect() // the right is revoked; the initiator loses its operations after Config.Timeout
	}
	return nil
}
