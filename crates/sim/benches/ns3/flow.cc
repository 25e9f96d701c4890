// SPDX-License-Identifier: GPL-2.0-only
//
// The flow of benches/speed in ns-3: one NewReno download over a wired link of 100 Mb/s and
// 10 ms and a radio link of 20 Mb/s and 15 ms with a queue of 100 packets. GPL because it is
// linked with ns-3. The bench compiles and starts it; by hand:
//
//     c++ -O2 -std=c++17 flow.cc -lns3-core -lns3-network -lns3-internet -lns3-traffic-control
//         -lns3-point-to-point -lns3-applications -o flow
//     ./flow 100000000
//
// Prints one line: bytes received, the transfer's virtual seconds, the simulation's wall
// seconds (without the set-up and the process's start), events. With a second argument, any,
// the slow start threshold's changes before it: seconds, segments.

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

namespace
{

const std::uint16_t PORT = 5001;
const double LIMIT_S = 10000.0;
// 1500 bytes of IP packet with the timestamps option.
const std::uint32_t SEGMENT_BYTES = 1448;

std::uint64_t g_wanted = 0;
std::uint64_t g_received = 0;
double g_doneAt = 0.0;

void
Received(ns3::Ptr<const ns3::Packet> packet, const ns3::Address&)
{
    g_received += packet->GetSize();
    if (g_received >= g_wanted)
    {
        g_doneAt = ns3::Simulator::Now().GetSeconds();
        ns3::Simulator::Stop();
    }
}

void
ThresholdChanged(std::uint32_t, std::uint32_t bytes)
{
    std::cout << ns3::Simulator::Now().GetSeconds() << ' ' << bytes / SEGMENT_BYTES << '\n';
}

// The sender's socket is there from the first event on.
void
TraceThreshold()
{
    ns3::Config::ConnectWithoutContext(
        "/NodeList/0/$ns3::TcpL4Protocol/SocketList/0/SlowStartThreshold",
        ns3::MakeCallback(&ThresholdChanged));
}

// What Preset::NewReno of the simulator is, as far as ns-3 has a name for it.
void
SetTcp()
{
    using namespace ns3;
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::TcpNewReno"));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", StringValue("ns3::TcpClassicRecovery"));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::WindowScaling", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::LimitedTransmit", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(1)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(SEGMENT_BYTES));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(4 << 20));
    // The sender's application always has more: no less than the receiver takes.
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(8 << 20));
}

ns3::NetDeviceContainer
Link(ns3::Ptr<ns3::Node> from, ns3::Ptr<ns3::Node> to, const char* rate, const char* delay, const char* queue)
{
    ns3::PointToPointHelper helper;
    helper.SetDeviceAttribute("DataRate", ns3::StringValue(rate));
    helper.SetChannelAttribute("Delay", ns3::StringValue(delay));
    helper.SetQueue("ns3::DropTailQueue", "MaxSize", ns3::StringValue(queue));
    return helper.Install(from, to);
}

} // namespace

int
main(int argc, char** argv)
{
    using namespace ns3;
    g_wanted = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
    if (g_wanted == 0)
    {
        std::cerr << "flow: takes the number of bytes to transfer\n";
        return 2;
    }
    SetTcp();

    NodeContainer nodes;
    nodes.Create(3);
    const auto wired = Link(nodes.Get(0), nodes.Get(1), "100Mbps", "10ms", "1000p");
    const auto radio = Link(nodes.Get(1), nodes.Get(2), "20Mbps", "15ms", "100p");

    InternetStackHelper stack;
    stack.Install(nodes);
    Ipv4AddressHelper addresses;
    addresses.SetBase("10.1.0.0", "255.255.255.0");
    addresses.Assign(wired);
    addresses.SetBase("10.2.0.0", "255.255.255.0");
    const auto radioAddresses = addresses.Assign(radio);
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    // The devices' drop-tail queues are the only ones.
    TrafficControlHelper queues;
    queues.Uninstall(wired);
    queues.Uninstall(radio);

    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), PORT));
    const auto sinks = sink.Install(nodes.Get(2));
    sinks.Get(0)->TraceConnectWithoutContext("Rx", MakeCallback(&Received));

    BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(radioAddresses.GetAddress(1), PORT));
    source.SetAttribute("MaxBytes", UintegerValue(g_wanted));
    source.SetAttribute("SendSize", UintegerValue(SEGMENT_BYTES));
    source.Install(nodes.Get(0));

    if (argc > 2)
    {
        Simulator::Schedule(MilliSeconds(1), &TraceThreshold);
    }
    Simulator::Stop(Seconds(LIMIT_S));
    const auto start = std::chrono::steady_clock::now();
    Simulator::Run();
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
    const auto events = Simulator::GetEventCount();
    Simulator::Destroy();

    std::cout << g_received << ' ' << g_doneAt << ' ' << wall.count() << ' ' << events << '\n';
    return g_received == g_wanted ? 0 : 1;
}
