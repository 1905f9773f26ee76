//! Log lines that watchers receive for binary requests.

use super::super::watch::check_lines;
use super::packet::{Packet, arithmetic, packet, store};
use slabwise_protocol::binary::opcode::{DELETE, INCREMENT, SET};

#[test]
fn watchers_receive_the_same_lines_for_binary_as_for_text_requests() {
    let packets = [
        store(SET, "a", b"v"),
        store(SET, "a", b"v").cas(99),
        arithmetic(INCREMENT, "n", 1, 7, 0),
        arithmetic(INCREMENT, "n", 1, 7, 0),
        packet(DELETE).key("n"),
    ];
    check_lines(
        packets.iter().flat_map(Packet::bytes).collect::<Vec<_>>(),
        "type=item_get key=a status=not_found clsid=0 cfd=30 size=0
         type=item_store key=a status=stored cmd=set ttl=0 clsid=C cfd=30 size=1
         type=item_get key=a status=found clsid=C cfd=30 size=1
         type=item_store key=a status=exists cmd=cas ttl=0 clsid=C cfd=30 size=1
         type=item_get key=n status=not_found clsid=0 cfd=30 size=0
         type=item_get key=n status=not_found clsid=0 cfd=30 size=0
         type=item_store key=n status=stored cmd=add ttl=0 clsid=C cfd=30 size=1
         type=item_get key=n status=found clsid=C cfd=30 size=1
         type=item_get key=n status=found clsid=C cfd=30 size=1
         type=deleted key=n cmd=delete clsid=C size=1",
    );
}
